package admin

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onebell/onebell/intents"
)

// masked is shown in place of what may not be seen.
const masked = "***"

var (
	maskMail  = regexp.MustCompile(`^[^\s@]+@[^\s@]+$`)
	maskPhone = regexp.MustCompile(`^\+[0-9]{6,15}$`)
	topicName = regexp.MustCompile(`^topic:`)
)

// maskRecipient hides a recipient but lets two of them be told apart by eye: a***@e***.org, https://h***.example/***, +49***12.
// What it does not recognise it hides altogether.
func maskRecipient(recipient string) string {
	if u, err := url.Parse(recipient); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return u.Scheme + "://" + maskHost(u.Hostname()) + "/" + masked // path and query often hold a secret
	}
	switch {
	case recipient == "":
		return ""
	case maskMail.MatchString(recipient):
		at := strings.LastIndexByte(recipient, '@')
		return firstRune(recipient[:at]) + masked + "@" + maskHost(recipient[at+1:])
	case maskPhone.MatchString(recipient):
		return recipient[:3] + masked + recipient[len(recipient)-2:]
	case topicName.MatchString(recipient):
		return "topic:" + firstRune(strings.TrimPrefix(recipient, "topic:")) + masked
	}
	return masked
}

// maskHost keeps the first letter and the last label.
func maskHost(host string) string {
	dot := strings.LastIndexByte(host, '.')
	if dot <= 0 || dot == len(host)-1 || !strings.ContainsAny(host[dot+1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return firstRune(host) + masked // one label, or an address in digits
	}
	return firstRune(host) + masked + host[dot:]
}

func firstRune(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

// strike hides the recipient, in any letter case, and whatever looks like a mail address inside a foreign sentence: mail
// servers like to repeat the address, or the one that it forwards to.
func strike(sentence, recipient string) string {
	if len(recipient) >= 3 {
		re := regexp.MustCompile("(?i)" + regexp.QuoteMeta(recipient))
		sentence = re.ReplaceAllLiteralString(sentence, maskRecipient(recipient))
	}
	return mailInText.ReplaceAllStringFunc(sentence, maskRecipient)
}

var mailInText = regexp.MustCompile(`[^\s<>@"'(),:;]+@[^\s<>@"'(),:;]+`)

// shown returns the record as the principal may see it. Everything that the API tells of an intent is made from the result.
func (p Principal) shown(r intents.Record) intents.Record {
	if p.Role.Includes(Operator) {
		return r
	}
	recipient := r.Intent.Recipient
	r.Intent.Recipient = maskRecipient(recipient)
	r.Intent.Message = strike(r.Intent.Message, recipient)
	r.Attempts = slices.Clone(r.Attempts)
	for i := range r.Attempts {
		r.Attempts[i].Message = strike(r.Attempts[i].Message, recipient)
	}
	r.Evidence = slices.Clone(r.Evidence)
	for i := range r.Evidence {
		r.Evidence[i].Message = strike(r.Evidence[i].Message, recipient)
	}
	r.Changes = slices.Clone(r.Changes)
	for i := range r.Changes {
		r.Changes[i].Detail = strike(r.Changes[i].Detail, recipient)
	}
	return r
}

// shownRefusal strikes what looks like an address from the free text of a refusal.
func (p Principal) shownRefusal(r intents.Refusal) intents.Refusal {
	if !p.Role.Includes(Operator) {
		r.Message, r.Sample = strike(r.Message, ""), strike(r.Sample, "")
	}
	return r
}
