package dedup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func meaning(t *testing.T, content string) Meaning {
	t.Helper()
	m, err := NewMeaning("ada@example.org", []byte(content), "", noon)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// W4: which texts are the same request. (g), the traceparent header, is no part of a Meaning at all.
func TestW4Fingerprint(t *testing.T) {
	base := meaning(t, `{"a":1,"b":"é","n":9007199254740991}`)
	for name, tc := range map[string]struct {
		content string
		same    bool
	}{
		"a order":             {`{"n":9007199254740991,"b":"é","a":1}`, true},
		"b blanks":            {"{ \"a\":1,\n \"b\":\"é\", \"n\":9007199254740991 }", true},
		"c 1.0 against 1":     {`{"a":1.0,"b":"é","n":9007199254740991}`, true},
		"d neighbour integer": {`{"a":1,"b":"é","n":9007199254740990}`, false},
		"e escape":            {`{"a":1,"b":"\u00e9","n":9007199254740991}`, true},
		"f null":              {`{"a":1,"b":"é","n":9007199254740991,"c":null}`, false},
	} {
		other := meaning(t, tc.content)
		if same := base.Fingerprint() == other.Fingerprint(); same != tc.same {
			t.Errorf("%s: same = %v, want %v", name, same, tc.same)
		}
		if same := len(ChangedFields(base, other)) == 0; same != tc.same {
			t.Errorf("%s: ChangedFields says same = %v, want %v", name, same, tc.same)
		}
	}
	for name, content := range map[string]string{
		"d beyond the safe range":    `{"n":9007199254740993}`,
		"d beyond, with a point":     `{"n":9007199254740993.0}`,
		"d just beyond":              `{"n":9007199254740992}`,
		"h the same member twice":    `{"a":1,"a":1}`,
		"h twice, written otherwise": `{"a":1,"\u0061":2}`,
	} {
		if _, err := NewMeaning("ada@example.org", []byte(content), "", noon); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

func TestFingerprintSeesEveryMember(t *testing.T) {
	base := meaning(t, `{"text":"hello"}`)
	for want, change := range map[string]func(*Meaning){
		"recipient":   func(m *Meaning) { m.Recipient = "Ada@example.org" },
		"content":     func(m *Meaning) { m.Content = []byte(`{"text":"hallo"}`) },
		"collapse_id": func(m *Meaning) { m.CollapseID = "x" },
		"occurred_at": func(m *Meaning) { m.OccurredAt = m.OccurredAt.Add(time.Microsecond) },
	} {
		m := base
		change(&m)
		if m.Fingerprint() == base.Fingerprint() {
			t.Errorf("%s: another one gives the same fingerprint", want)
		}
		if got := ChangedFields(base, m); !slices.Equal(got, []string{want}) {
			t.Errorf("ChangedFields = %v, want %s", got, want)
		}
	}
	all := Meaning{Recipient: "b", Content: []byte("{}"), CollapseID: "c", OccurredAt: noon.Add(time.Hour)}
	if got := ChangedFields(base, all); !slices.Equal(got, []string{"recipient", "content", "collapse_id", "occurred_at"}) {
		t.Errorf("ChangedFields = %v", got)
	}
}

// B8: a fingerprint knows microseconds, cut and never rounded, in whatever zone the time was written.
func TestB8FingerprintCutsToMicroseconds(t *testing.T) {
	last := time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC)
	a := Meaning{OccurredAt: last}
	for name, at := range map[string]time.Time{
		"nanoseconds":  last.Add(900 * time.Nanosecond), // …59.9999999
		"another zone": last.In(time.FixedZone("", 2*60*60)),
	} {
		b := Meaning{OccurredAt: at}
		if a.Fingerprint() != b.Fingerprint() || ChangedFields(a, b) != nil {
			t.Errorf("%s: another fingerprint", name)
		}
		m, err := NewMeaning("r", []byte(`{}`), "", at)
		if err != nil || m.OccurredAt != last {
			t.Errorf("%s: NewMeaning keeps %v, %v; want %v", name, m.OccurredAt, err, last)
		}
	}
	if b := (Meaning{OccurredAt: last.Add(time.Microsecond)}); a.Fingerprint() == b.Fingerprint() {
		t.Error("the next microsecond, which is the next day, has the same fingerprint")
	}
	if !Instant(time.Time{}).IsZero() {
		t.Error("no time became a time")
	}
}

// The bytes that are hashed are a promise: stored fingerprints must be comparable with those of a later build.
func TestFingerprintVersion1IsFixed(t *testing.T) {
	m := Meaning{Recipient: "ada@example.org", Content: []byte(`{"subject":"Hi"}`), CollapseID: "q\"1", OccurredAt: noon}
	want := sha256.Sum256([]byte(`{"collapse_id":"q\"1","content":{"subject":"Hi"},"occurred_at":"2026-11-30T12:00:00.000000Z",` +
		`"recipient":"ada@example.org","version":1}`))
	if got := m.Fingerprint(); got.Version != 1 || got.Sum != want {
		t.Errorf("fingerprint %d %s, want 1 %s", got.Version, hex.EncodeToString(got.Sum[:]), hex.EncodeToString(want[:]))
	}
}

// What is hashed is what RFC 8785 makes of the five members.
func TestFingerprintIsOverCanonicalJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		m := Meaning{Recipient: text.Draw(t, "recipient"), CollapseID: text.Draw(t, "collapse"), Content: []byte(`{"a":[1,"\n"]}`), OccurredAt: noon}
		raw, err := json.Marshal(map[string]any{
			"version": 1, "recipient": m.Recipient, "content": json.RawMessage(m.Content), "collapse_id": m.CollapseID,
			"occurred_at": "2026-11-30T12:00:00.000000Z",
		})
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := jcs.Transform(raw)
		if err != nil {
			t.Fatal(err)
		}
		if m.Fingerprint().Sum != sha256.Sum256(canonical) {
			t.Fatalf("not the digest of %s", canonical)
		}
	})
}
