package smtp

import (
	"errors"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of RFC 5321 §4.5.3.1, in bytes.
const (
	maxAddress   = 254
	maxLocalPart = 64
	maxDomain    = 253
	maxLabel     = 63
)

// domains maps an internationalised domain name to its ASCII form (UTS 46, non-transitional).
var domains = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(true))

// parseAddress takes exactly one bare address and returns its normal form: the domain in lower case and in ASCII, what
// stands before the @ untouched, since only the mailbox's own server knows whether its letter case matters. Quoted local
// parts, comments, display names, lists and address literals are refused, so the form on the wire has one reading only.
// The error is a sentence without the address.
func parseAddress(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("it is empty; give one mail address, as in ada@example.org")
	case !utf8.ValidString(s):
		return "", errors.New("it is not valid UTF-8; give one mail address, as in ada@example.org")
	case strings.ContainsFunc(s, isBadRune):
		return "", errors.New("it holds a blank, a control or an invisible character; give the bare address alone")
	case strings.ContainsAny(s, `"`+`\`):
		return "", errors.New("quoted local parts are not taken; give the address without quotes")
	case strings.ContainsAny(s, "<>(),:;[]"):
		return "", errors.New("give one bare address, without a name, angle brackets, comments, address literals or a second address")
	case strings.Count(s, "@") != 1:
		return "", errors.New("an address has one @, as in ada@example.org")
	}
	local, domain, _ := strings.Cut(s, "@")
	if local == "" || len(local) > maxLocalPart || local[0] == '.' || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return "", errors.New("what stands before the @ must have 1 to 64 bytes, and no dot at its ends or two in a row")
	}
	domain, err := parseDomain(domain)
	if err != nil {
		return "", err
	}
	normal := local + "@" + domain
	if len(normal) > maxAddress {
		return "", errors.New("it is longer than 254 bytes; no mail server takes that")
	}
	// A second, independent reading has to agree.
	if again, err := mail.ParseAddress(normal); err != nil || again.Name != "" || again.Address != normal {
		return "", errors.New("it is not a mail address in the sense of RFC 5322; give it as in ada@example.org")
	}
	return normal, nil
}

func parseDomain(s string) (string, error) {
	domain := strings.ToLower(s)
	if !isASCII(s) || strings.Contains(domain, "xn--") {
		ascii, err := domains.ToASCII(s)
		if err != nil {
			return "", errors.New("what stands after the @ is not a domain name that can be written in ASCII; check its spelling")
		}
		domain = ascii
	}
	if len(domain) == 0 || len(domain) > maxDomain {
		return "", errors.New("what stands after the @ must be a domain name of 1 to 253 bytes")
	}
	labels := strings.Split(domain, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", errors.New("what stands after the @ is not a domain name: parts of letters, digits and inner hyphens, joined by single dots")
		}
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "", errors.New("what stands after the @ is a number or an IP address; give a domain name")
	}
	return domain, nil
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && !isAlnum(c) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isBadRune: what must never stand in an address: it ends a command, or cannot be seen.
func isBadRune(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.C, r) || unicode.Is(unicode.Z, r) || r == utf8.RuneError
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
