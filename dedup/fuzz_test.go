package dedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
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
