package smtp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

func isCertificateError(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}

// addressLike is whatever could be read as a mail address, also in VERP and source-route spellings.
var addressLike = regexp.MustCompile(`[^\s<>"(),;:\[\]]+@[^\s<>"(),;\[\]]*[^\s<>"(),;\[\].:]`)

// strike takes the recipient, the account and everything that looks like an address out of what a server said: servers echo them, and
// the text is stored and shown.
func (s *settled) strike(text, recipient string) string {
	secrets := []string{recipient}
	if s.Username != "" {
		user, password := s.Username, string(s.Password)
		secrets = append(secrets, encode("\x00"+user+"\x00"+password), password, encode(password), user, encode(user)) // the longest first
	}
	for _, secret := range secrets {
		// Struck within words, a short one would leave nothing to read.
		text = strikeFold(text, secret, len(secret) < 4)
	}
	if strings.Contains(text, "@") {
		text = addressLike.ReplaceAllString(text, "<address>")
	}
	local, _, _ := strings.Cut(recipient, "@")
	return strikeFold(text, local, true)
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

const struck = "***"

// strikeFold strikes the secret out in any letter case; with alone, only where it is no part of a longer word.
func strikeFold(text, secret string, alone bool) string {
	if secret == "" {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		end := i + len(secret)
		if end <= len(text) && strings.EqualFold(text[i:end], secret) && (!alone || isWord(text, i, end)) {
			out.WriteString(struck)
			i = end
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

func isWord(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return !isWordRune(before) && !isWordRune(after)
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// queueIDs are the ways in which servers name the mail that they took: Postfix and most others, Exim, Sendmail, Gmail, Amazon SES.
var queueIDs = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\bqueued as "?([A-Za-z0-9._-]+)`),
	regexp.MustCompile(`(?i)\bid[=:] ?([A-Za-z0-9._-]+)`),
	regexp.MustCompile(`^(?:2\.\d+\.\d+ )?([A-Za-z0-9._-]{6,}) Message accepted`),
	regexp.MustCompile(`(?i)^(?:2\.\d+\.\d+ )?OK +\d+ ([A-Za-z0-9._-]+) - gsmtp`),
	regexp.MustCompile(`(?i)^(?:2\.\d+\.\d+ )?OK ([0-9a-f]{16}-[A-Za-z0-9-]+)$`),
}

const maxQueueID = 128

// queueID finds the server's own name for the mail in its reply to the dot, "" if it gave none.
func queueID(text string) string {
	for _, re := range queueIDs {
		if m := re.FindStringSubmatch(text); m != nil && len(m[1]) <= maxQueueID {
			return strings.TrimRight(m[1], ".")
		}
	}
	return ""
}
