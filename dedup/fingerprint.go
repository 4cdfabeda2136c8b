package dedup

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"
)

// FingerprintVersion is the version that Meaning.Fingerprint makes.
const FingerprintVersion = 1

// Meaning is what a request says, apart from its identity: two requests of one identity with different meanings are a conflict.
// Recipient is in the channel's normal form, Content in canonical JSON; NewMeaning brings Content and OccurredAt into theirs.
type Meaning struct {
	Recipient  string
	Content    []byte
	CollapseID string
	OccurredAt time.Time // UTC, whole microseconds
}

// NewMeaning makes content canonical and cuts occurredAt with Instant. The recipient must be in normal form already. The error is
// CanonicalJSON's.
func NewMeaning(recipient string, content []byte, collapseID string, occurredAt time.Time) (Meaning, error) {
	canonical, err := CanonicalJSON(content)
	if err != nil {
		return Meaning{}, err
	}
	return Meaning{Recipient: recipient, Content: canonical, CollapseID: collapseID, OccurredAt: Instant(occurredAt)}, nil
}

// Instant returns t in UTC, cut down to whole microseconds, which is what PostgreSQL keeps. Everything that is stored, hashed or
// compared passes through it; the database's own rounding goes up as well as down.
func Instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Fingerprint is a versioned digest of a Meaning. Fingerprints of different versions cannot be compared.
type Fingerprint struct {
	Version uint8
	Sum     [32]byte
}

// Fingerprint returns SHA-256 over the RFC 8785 canonical JSON of {version, recipient, content, collapse_id, occurred_at}. In content,
// 1.0 and 1 are one number, while an absent member and one that is null differ.
func (m Meaning) Fingerprint() Fingerprint {
	b := make([]byte, 0, 128+len(m.Recipient)+len(m.Content)+len(m.CollapseID))
	b = append(b, `{"collapse_id":`...)
	b = appendCanonicalString(b, m.CollapseID)
	b = append(b, `,"content":`...)
	b = append(b, m.Content...)
	b = append(b, `,"occurred_at":`...)
	b = Instant(m.OccurredAt).AppendFormat(b, `"2006-01-02T15:04:05.000000Z"`)
	b = append(b, `,"recipient":`...)
	b = appendCanonicalString(b, m.Recipient)
	b = fmt.Appendf(b, `,"version":%d}`, FingerprintVersion)
	return Fingerprint{Version: FingerprintVersion, Sum: sha256.Sum256(b)}
}

// appendCanonicalString appends s as RFC 8785 writes strings (section 3.2.2.2).
func appendCanonicalString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\t':
			b = append(b, `\t`...)
		case '\n':
			b = append(b, `\n`...)
		case '\f':
			b = append(b, `\f`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			if c < 0x20 {
				b = fmt.Appendf(b, `\u%04x`, c)
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

// ChangedFields names the members in which two meanings differ, in the order recipient, content, collapse_id, occurred_at.
func ChangedFields(a, b Meaning) []string {
	var out []string
	if a.Recipient != b.Recipient {
		out = append(out, "recipient")
	}
	if !bytes.Equal(a.Content, b.Content) {
		out = append(out, "content")
	}
	if a.CollapseID != b.CollapseID {
		out = append(out, "collapse_id")
	}
	if !Instant(a.OccurredAt).Equal(Instant(b.OccurredAt)) {
		out = append(out, "occurred_at")
	}
	return out
}
