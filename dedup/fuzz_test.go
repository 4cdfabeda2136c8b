package dedup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"receipt-mail:8841", "a:b:c", ":a", "a:", "a::b", "", "a\x00b:c", "ada@example.org:1", "k:\xc3\x28", "caf\u00e9:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := ParseKey(s)
		if (err == nil) != keyByPattern(s) {
			t.Fatalf("ParseKey(%q) = %v, the pattern says %v", s, err, keyByPattern(s))
		}
		if err == nil && string(key) != s {
			t.Fatalf("%q was changed to %q", s, key)
		}
		if err != nil && !utf8.ValidString(err.Error()) {
			t.Fatalf("the error carries the value's bytes: %q", err)
		}
	})
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{
		`{"b":[1,2.50,{"c":null}],"a":"\u00e9\ud83d\ude00"}`, `{"a":1,"\u0061":2}`, `9007199254740993.0`, `1e400`, `"\ud800"`, "\"\xc3\x28\"",
		"{\"a\":\"\x00\"}", `[[[[]]]]`, `{} {}`, `-0.0`, `5e-324`, `"\\u0000"`, `{"":{"":0}}`, `"\u2028</script>"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := CanonicalJSON(data)
		if err != nil {
			var e *InputError
			if !errors.As(err, &e) || e.Code == "" || e.Message == "" || !utf8.ValidString(e.Field) {
				t.Fatalf("error without code and sentence: %#v", err)
			}
			return
		}
		if !json.Valid(data) || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			t.Fatalf("passed what is not clean JSON: %q", data)
		}
		again, err := CanonicalJSON(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("canonical form %q has another canonical form %q, %v", out, again, err)
		}
		// The standard library, which sorts members when it writes a map, is another road to the same form.
		var tree any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		reordered, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		third, err := CanonicalJSON(reordered)
		if err != nil || !bytes.Equal(out, third) {
			t.Fatalf("%q and its rewritten form %q differ: %q, %q, %v", data, reordered, out, third, err)
		}
	})
}

// FuzzFingerprint: two meanings have one fingerprint exactly when no member of theirs differs, and it is the digest that somebody else
// would compute from the documents alone: canonical JSON of the five members.
func FuzzFingerprint(f *testing.F) {
	f.Add("ada@example.org", `{"text":"a"}`, "", int64(1764496800000000), "ada@example.org", `{"text":"a"}`, "", int64(1764496800000000))
	f.Add("a\x01\"\\", `{"b":1.0,"a":"\u2028"}`, "x\n", int64(-1), "a", `{"a":"\u2028","b":1}`, "x", int64(0))
	f.Add("", `[]`, `","content":{}`, int64(1), `","content":{}`, `[]`, "", int64(1))
	f.Fuzz(func(t *testing.T, to, text, collapse string, micros int64, to2, text2, collapse2 string, micros2 int64) {
		a, okA := fuzzMeaning(to, text, collapse, micros)
		b, okB := fuzzMeaning(to2, text2, collapse2, micros2)
		if !okA || !okB {
			return
		}
		if same, fields := a.Fingerprint() == b.Fingerprint(), ChangedFields(a, b); same != (len(fields) == 0) {
			t.Fatalf("%+v and %+v: one fingerprint is %v, members that differ %q", a, b, same, fields)
		}
		document, err := json.Marshal(map[string]any{
			"version": FingerprintVersion, "recipient": a.Recipient, "content": json.RawMessage(a.Content), "collapse_id": a.CollapseID,
			"occurred_at": a.OccurredAt.Format("2006-01-02T15:04:05.000000Z07:00"),
		})
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := CanonicalJSON(document)
		if err != nil {
			return // longer or deeper than content may be
		}
		if a.Fingerprint().Sum != sha256.Sum256(canonical) {
			t.Fatalf("%+v: the fingerprint is not that of %s", a, canonical)
		}
	})
}

// fuzzMeaning makes a meaning of what a request could carry.
func fuzzMeaning(to, content, collapse string, micros int64) (Meaning, bool) {
	const year = int64(366 * 24 * time.Hour / time.Microsecond)
	for _, s := range []string{to, collapse} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return Meaning{}, false
		}
	}
	m, err := NewMeaning(to, []byte(content), collapse, time.UnixMicro(micros%(1000*year)))
	return m, err == nil
}
