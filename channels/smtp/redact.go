package smtp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
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
		text = strikeFold(text, secret)
	}
	text = addressLike.ReplaceAllString(text, "<address>")
	if local, _, ok := strings.Cut(recipient, "@"); ok {
		text = strikeWord(text, local)
	}
	return text
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

const struck = "***"

func strikeFold(text, secret string) string {
	if len(secret) < 4 { // struck as a part of words, it would leave nothing to read
		return strikeWord(text, secret)
	}
	return regexp.MustCompile(`(?i)`+regexp.QuoteMeta(secret)).ReplaceAllLiteralString(text, struck)
}

// strikeWord strikes the word where it stands alone, in any letter case.
func strikeWord(text, word string) string {
	if word == "" {
		return text
	}
	re := regexp.MustCompile(`(?i)(^|[^\pL\pN])` + regexp.QuoteMeta(word) + `($|[^\pL\pN])`)
	for {
		next := re.ReplaceAllString(text, "${1}"+struck+"${2}")
		if next == text {
			return text
		}
		text = next
	}
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
