package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onebell/onebell/dedup"
)

// Decode reads the payload of a request. An optional member that is null counts as absent. What only the clock, the channel or the
// database can judge is not judged here.
//
// The error is a *Refusal; the Request then holds what could be read before it, key and revision first.
func Decode(payload []byte) (Request, error) {
	r := Request{Priority: Normal}
	m, err := readObject(payload, requestMembers)
	if err != nil {
		return r, err
	}
	for _, read := range []func() *Refusal{
		func() *Refusal { return m.key(&r.Key) },
		func() *Refusal { return m.revision(&r.Revision) },
		func() *Refusal { return m.instant("occurred_at", true, &r.OccurredAt) },
		func() *Refusal { return m.recipient(&r.Recipient) },
		func() *Refusal { return m.content(&r.Content) },
		func() *Refusal { return m.collapseID(&r.CollapseID) },
		func() *Refusal { return m.instant("not_before", false, &r.NotBefore) },
		func() *Refusal { return m.instant("expires_at", false, &r.ExpiresAt) },
		r.checkSpan,
		func() *Refusal { return m.priority(&r.Priority) },
		func() *Refusal { return m.labels(&r.Labels) },
	} {
		if err := read(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// checkSpan refuses a request that could never be sent.
func (r *Request) checkSpan() *Refusal {
	if !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(r.NotBefore) {
		return refuse(CodeTimeInvalid, "expires_at", "expires_at is not after not_before, so the request could never be sent; mend one of the two")
	}
	return nil
}

var requestMembers = []string{
	"key", "revision", "occurred_at", "recipient", "content", "collapse_id", "not_before", "expires_at", "priority", "labels",
}

// object holds the members of a checked JSON object that are there and not null.
type object map[string]json.RawMessage

// readObject refuses whatever is not one clean JSON object of known members. Names are compared with regard to case, which
// encoding/json does not do for a struct.
func readObject(payload []byte, known []string) (object, error) {
	if len(payload) > MaxPayload {
		return nil, refuse(CodePayloadTooLarge, "",
			fmt.Sprintf("the payload has %d bytes and may have %d; send large things as a link", len(payload), MaxPayload))
	}
	if err := dedup.CheckJSON(payload); err != nil {
		return nil, fromInput(err)
	}
	var m object
	if err := json.Unmarshal(payload, &m); err != nil || m == nil {
		return nil, refuse(CodeMemberType, "", "the payload must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, name) {
			return nil, unknownMember(name, known)
		}
		if string(m[name]) == "null" {
			delete(m, name)
		}
	}
	return m, nil
}

// unknownMember names the member only if it is spelled like one: anything else could be personal data.
func unknownMember(name string, known []string) *Refusal {
	hint := "remove it; the members are " + strings.Join(known, ", ")
	switch {
	case name == "caller" || name == "channel":
		hint = "remove it; caller and channel are taken from the subject"
	case len(name) > 40 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "":
		name = "*"
	}
	return refuse(CodeMemberUnknown, name, "this member does not exist; "+hint)
}

func wrongType(field, want string) *Refusal {
	return refuse(CodeMemberType, field, "this member must be "+want)
}

// text reads a string; "" if it is absent and not required.
func (m object) text(field string, required bool, to *string) *Refusal {
	raw, ok := m[field]
	if !ok {
		if required {
			return missing(field)
		}
		return nil
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return wrongType(field, "a string")
	}
	return nil
}

func (m object) key(to *dedup.Key) *Refusal {
	var s string
	if err := m.text("key", true, &s); err != nil {
		return err
	}
	key, err := dedup.ParseKey(s)
	if err != nil {
		return fromInput(err)
	}
	*to = key
	return nil
}

// revision takes 1 and 1.0, which are one number in JSON.
func (m object) revision(to *int32) *Refusal {
	raw, ok := m["revision"]
	if !ok {
		return nil
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		return wrongType("revision", "a number")
	}
	if f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		return refuse(CodeRevisionInvalid, "revision", "the revision must be an integer from 0 to 2147483647")
	}
	*to = int32(f)
	return nil
}

// rfc3339 refuses what time.Parse takes beyond RFC 3339: commas, one-digit hours, offsets of a day and more (go.dev/issue/54580).
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func (m object) instant(field string, required bool, to *time.Time) *Refusal {
	var s string
	if err := m.text(field, required, &s); err != nil {
		return err
	}
	if _, ok := m[field]; !ok {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !rfc3339.MatchString(s) {
		if _, err := time.Parse("2006-01-02T15:04:05", s); err == nil {
			return refuse(CodeTimeInvalid, field, "this time has no offset; add Z for UTC, or an offset such as +02:00")
		}
		return refuse(CodeTimeInvalid, field, "write this time as RFC 3339 with an offset, for example 2026-11-30T10:00:00Z")
	}
	*to = dedup.Instant(t)
	return nil
}

func (m object) recipient(to *string) *Refusal {
	if err := m.text("recipient", true, to); err != nil {
		return err
	}
	if n := len(*to); n == 0 || n > MaxRecipient {
		return refuse(CodeRecipientInvalid, "recipient", fmt.Sprintf("the recipient has %d bytes; it must have 1 to %d", n, MaxRecipient))
	}
	return nil
}

func (m object) content(to *json.RawMessage) *Refusal {
	raw, ok := m["content"]
	switch {
	case !ok:
		return missing("content")
	case raw[0] != '{':
		return wrongType("content", "a JSON object")
	}
	*to = raw
	return nil
}

func (m object) collapseID(to *string) *Refusal {
	if err := m.text("collapse_id", false, to); err != nil {
		return err
	}
	if n := len(*to); n > MaxCollapseID {
		return refuse(CodeCollapseIDInvalid, "collapse_id", fmt.Sprintf("the collapse_id has %d bytes and may have %d", n, MaxCollapseID))
	}
	if strings.ContainsFunc(*to, unprintable) {
		return refuse(CodeCollapseIDInvalid, "collapse_id", "the collapse_id holds a character that cannot be shown; remove it")
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func (m object) priority(to *Priority) *Refusal {
	s := string(Normal)
	if err := m.text("priority", false, &s); err != nil {
		return err
	}
	switch p := Priority(s); p {
	case High, Normal, Low:
		*to = p
		return nil
	}
	return refuse(CodePriorityInvalid, "priority", "the priority must be high, normal or low")
}

func (m object) labels(to *map[string]string) *Refusal {
	raw, ok := m["labels"]
	if !ok {
		return nil
	}
	var values map[string]*string
	if err := json.Unmarshal(raw, &values); err != nil {
		return wrongType("labels", "an object of strings")
	}
	labels := make(map[string]string, len(values))
	for name, value := range values {
		if value == nil {
			return wrongType("labels", "an object of strings")
		}
		labels[name] = *value
	}
	if err := checkLabels(labels); err != nil {
		return err
	}
	if len(labels) > 0 {
		*to = labels
	}
	return nil
}

func checkLabels(labels map[string]string) *Refusal {
	if len(labels) > MaxLabels {
		return refuse(CodeLabelsInvalid, "labels", fmt.Sprintf("there are %d labels; send at most %d", len(labels), MaxLabels))
	}
	for name, value := range labels {
		switch {
		case len(name) == 0 || len(name) > MaxLabelName || strings.ContainsFunc(name, notOfKeys):
			return refuse(CodeLabelsInvalid, "labels", fmt.Sprintf("a label's name must be 1 to %d of A-Z a-z 0-9 . _ ~ = -", MaxLabelName))
		case len(value) > MaxLabelValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			return refuse(CodeLabelsInvalid, "labels", fmt.Sprintf("a label's value must be text of at most %d bytes without control characters", MaxLabelValue))
		}
	}
	return nil
}

// notOfKeys reports whether r cannot stand in a segment of a key.
func notOfKeys(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._~=-", r))
}

func checkUTF8(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return refuse(dedup.CodeJSONUTF8, field, "it holds bytes that are not UTF-8; encode the text as UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		return refuse(dedup.CodeJSONNUL, field, "it holds the character U+0000, which cannot be stored; remove it")
	}
	return nil
}
