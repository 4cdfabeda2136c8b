package dedup

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeyGrammar(t *testing.T) {
	for name, key := range map[string]string{
		"shortest":          "a:b",
		"all characters":    "aZ09._~=-:aZ09._~=-",
		"many segments":     "order:8841:paid:2026-11-30",
		"200 bytes":         "k:" + strings.Repeat("x", 198),
		"dots alone":        ".:..",
		"one-byte segments": "a:b:c:d:e",
	} {
		if got, err := ParseKey(key); err != nil || string(got) != key {
			t.Errorf("%s: ParseKey = %q, %v; want the key itself", name, got, err)
		}
	}
	for name, key := range map[string]string{
		"empty":            "",
		"2 bytes":          "a:",
		"one segment":      "newsletter",
		"empty kind":       ":8841",
		"empty entity":     "receipt:",
		"empty middle":     "receipt::8841",
		"201 bytes":        "k:" + strings.Repeat("x", 199),
		"mail address":     "receipt:ada@example.org",
		"phone number":     "sms:+4930123456",
		"blank":            "receipt: 8841",
		"B1 NUL":           "a\x00b:c",
		"line feed":        "receipt:8841\n",
		"B6 composed":      "caf\u00e9:1",
		"B6 decomposed":    "cafe\u0301:1",
		"invalid UTF-8":    "k:\xc3\x28",
		"subject wildcard": "k:*",
		"slash":            "k:a/b",
	} {
		_, err := ParseKey(key)
		var e *InputError
		if !errors.As(err, &e) || e.Code != CodeKeyInvalid || e.Field != "key" {
			t.Errorf("%s: error %v; want an InputError of code %s", name, err, CodeKeyInvalid)
			continue
		}
		if len(key) > 8 && strings.Contains(e.Error(), key[2:]) {
			t.Errorf("%s: the error repeats the value: %v", name, e)
		}
	}
}

// The grammar as protocol.md writes it, as a second opinion.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9._~=-]+(:[A-Za-z0-9._~=-]+)+$`)

func keyByPattern(s string) bool { return len(s) >= 3 && len(s) <= 200 && keyPattern.MatchString(s) }

func TestKeyAgreesWithThePattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-c:.@\n é]{0,8}|[A-Za-z0-9._~=-]{1,90}(:[A-Za-z0-9._~=-]{1,70}){0,3}`).Draw(t, "key")
		if _, err := ParseKey(s); (err == nil) != keyByPattern(s) {
			t.Fatalf("ParseKey(%q) = %v, the pattern says %v", s, err, keyByPattern(s))
		}
	})
}

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		parse func(string) (string, error)
		code  string
		most  int
	}{{ParseCaller, CodeCallerInvalid, 64}, {ParseChannel, CodeChannelInvalid, 32}} {
		for _, good := range []string{"a", "9", "_-", "web-shop_2", strings.Repeat("x", tc.most)} {
			if got, err := tc.parse(good); err != nil || got != good {
				t.Errorf("%s: %q refused: %v", tc.code, good, err)
			}
		}
		for _, bad := range []string{"", "A", "a.b", "a:b", "*", ">", "a b", "é", "a\x00", strings.Repeat("x", tc.most+1)} {
			_, err := tc.parse(bad)
			var e *InputError
			if !errors.As(err, &e) || e.Code != tc.code {
				t.Errorf("%q: error %v; want code %s", bad, err, tc.code)
			}
		}
	}
}

// X2: caller, channel and key are separate parts, and no two different triples can be joined into one.
func TestX2FactsOfDifferentPartsDiffer(t *testing.T) {
	ids := []Identity{
		{Caller: "a", Channel: "b", Key: "c:d"},
		{Caller: "a:b", Channel: "", Key: "c:d"},
		{Caller: "a", Channel: "bc", Key: ":d"},
		{Caller: "ab", Channel: "", Key: "c:d"},
		{Caller: "", Channel: "ab", Key: "c:d"},
		{Caller: "b", Channel: "a", Key: "c:d"},
	}
	d := testDeriver(t)
	facts, effects := map[Fact]int{}, map[Derived]int{}
	for i, id := range ids {
		if j, ok := facts[id.Fact()]; ok {
			t.Errorf("%+v and %+v are one fact", ids[j], id)
		}
		if j, ok := effects[d.EffectKey(id)]; ok {
			t.Errorf("%+v and %+v have one effect key", ids[j], id)
		}
		facts[id.Fact()], effects[d.EffectKey(id)] = i, i
	}
	a := Identity{Caller: "a", Channel: "mail", Key: "k:1", Revision: 0}
	b := Identity{Caller: "a", Channel: "mail", Key: "k:1", Revision: 7}
	if a.Fact() != b.Fact() {
		t.Error("two revisions of one fact are two facts")
	}
}
