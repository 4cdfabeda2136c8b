package smtp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// plainHeaders may be set beside X-…: their values are structured, so they are neither encoded nor mended.
var plainHeaders = []string{
	"Auto-Submitted", "Feedback-ID", "Importance", "In-Reply-To", "List-Archive", "List-Help", "List-Id", "List-Subscribe",
	"List-Unsubscribe", "List-Unsubscribe-Post", "Precedence", "References",
}

// orders are the headers in which relays take orders: with X-SMTPAPI (SendGrid) or X-MC-BccAddress (Mandrill) whoever
// writes a header chooses recipients.
// https://www.twilio.com/docs/sendgrid/for-developers/sending-email/building-an-x-smtpapi-header
// https://mailchimp.com/developer/transactional/docs/smtp-integration/
var orders = []string{"X-MC-", "X-Mailgun-", "X-Mailjet-", "X-MJ-", "X-MSYS-", "X-SES-", "X-PM-", "X-EE-"}

func (c *content) readHeaders(members map[string]json.RawMessage, keyHeader string) error {
	const field = "content.headers"
	raw, ok := members["headers"]
	if !ok {
		return nil
	}
	given, err := object(raw, field)
	if err != nil {
		return err
	}
	if len(given) > maxHeaders {
		return invalid(field, fmt.Sprintf("there are more than %d headers; give fewer", maxHeaders))
	}
	c.headers = make(map[string]string, len(given))
	seen := make(map[string]bool, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		lower := strings.ToLower(name)
		if !allowedHeader(name) || strings.EqualFold(name, keyHeader) {
			return invalid(field, "a header is not allowed; allowed are X-… (but none in which a relay takes orders), "+strings.Join(plainHeaders, ", "))
		}
		if seen[lower] {
			return invalid(field, "a header is given twice, in different letter case; give it once")
		}
		seen[lower] = true
		if c.headers[name], err = headerValue(given, name, field); err != nil {
			return err
		}
	}
	return nil
}

func headerValue(given map[string]json.RawMessage, name, field string) (string, error) {
	value, err := text(given, name, field)
	if err != nil {
		return "", err
	}
	switch {
	case utf8.RuneCountInString(value) > maxHeaderValue:
		return "", invalid(field, fmt.Sprintf("the value of a header has more than %d characters; shorten it", maxHeaderValue))
	case !oneLine(value):
		return "", invalid(field, "the value of a header holds a line break or a control character; a header is one line")
	case slices.Contains(plainHeaders, name) && (!isASCII(value) || strings.TrimSpace(value) != value):
		return "", invalid(field, "the value of a List-… or another standard header must be printable ASCII without blanks at its ends")
	}
	return value, nil
}

func allowedHeader(name string) bool {
	if slices.Contains(plainHeaders, name) {
		return true
	}
	rest, ok := strings.CutPrefix(name, "X-")
	if !ok || len(name) > maxHeaderName || !isHeaderToken(rest) || strings.EqualFold(name, "X-SMTPAPI") {
		return false
	}
	return !slices.ContainsFunc(orders, func(prefix string) bool {
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
	})
}

func isHeaderToken(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '-' && (r >= utf8.RuneSelf || !isAlnum(byte(r))) })
}

// reservedHeader: headers that the mail itself needs, or that producers may set.
func reservedHeader(name string) bool {
	own := []string{"From", "To", "Cc", "Bcc", "Reply-To", "Sender", "Subject", "Date", "Message-ID", "MIME-Version", "Return-Path", "Received"}
	return strings.HasPrefix(strings.ToLower(name), "content-") ||
		slices.ContainsFunc(slices.Concat(own, plainHeaders), func(h string) bool { return strings.EqualFold(h, name) })
}
