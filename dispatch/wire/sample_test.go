package wire

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSample(t *testing.T) {
	for payload, want := range map[string]string{
		``:      ` (0 bytes)`,
		`hello`: `# (5 bytes)`,
		`{"key":"a:b","revision":12,"recipient":"ada@example.org","labels":{"x":true}}`: `{"key":"…","revision":#,"recipient":"…","labels":{"…":#}} (77 bytes)`,
		`{"key":"a:b","recipient":"ada@exa`:                                             `{"key":"…","recipient":"… (33 bytes)`,
		`["key", "recipient"]`:                                                          `["…","…"] (20 bytes)`,
		`{"ada@example.org" : 1}`:                                                       `{"…":#} (23 bytes)`,
		`{"recipient" : "x"}`:                                                           `{"recipient":"…"} (19 bytes)`,
		`{"key\"":"secret\\"} ada`:                                                      `{"…":"…"}# (24 bytes)`,
		"\xff\x00{\"key\":\"\xff\"}":                                                    `#{"key":"…"} (13 bytes)`,
	} {
		if got := Sample([]byte(payload)); got != want {
			t.Errorf("%q: %q, want %q", payload, got, want)
		}
	}
	long := Sample([]byte(strings.Repeat(`{"key":"x"},`, 100000)))
	if len(long) > MaxSample+40 || !strings.HasSuffix(long, "… (1200000 bytes)") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

// Whatever comes in, nothing comes out but punctuation and names that are in the contract.
func FuzzSample(f *testing.F) {
	for _, s := range []string{`{"key":"a:b"}`, `{"key`, `"\"`, `{"key\u0022":1}`, "{\"key\"\x00:1}", `'key':`, strings.Repeat(`"recipient":`, 60)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		s := Sample(payload)
		if !utf8.ValidString(s) || len(s) > MaxSample+40 {
			t.Fatalf("%d bytes: %q", len(s), s)
		}
		shape := s[:strings.LastIndex(s, " (")]
		if strings.HasSuffix(shape, "…") && len(shape) > MaxSample {
			shape = shape[:MaxSample-len(`"occurred_at"`)] // the cut may fall into a name
			shape = shape[:strings.LastIndexAny(shape, ":,#…{[]}")+1]
			shape = strings.ToValidUTF8(shape, "")
		}
		for _, name := range requestMembers {
			shape = strings.ReplaceAll(shape, `"`+name+`":`, "")
		}
		if rest := strings.Trim(strings.NewReplacer("…", "", `"`, "", "#", "").Replace(shape), "{}[]:,"); rest != "" {
			t.Fatalf("%q of %q shows %q", s, payload, rest)
		}
	})
}
