package dedup

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

var testSecret = []byte("an-example-secret-of-forty-bytes-exactly")

func testDeriver(t *testing.T) *Deriver {
	t.Helper()
	d, err := NewDeriver(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSecretMustBeLong(t *testing.T) {
	short := testSecret[:31]
	_, err := NewDeriver(short)
	if err == nil || !strings.Contains(err.Error(), "ONEBELL_SECRET") || strings.Contains(err.Error(), string(short[:8])) {
		t.Errorf("error %v; want one that names ONEBELL_SECRET and not its value", err)
	}
	d, err := NewDeriver(testSecret[:32])
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, d); strings.Contains(s, "example") || strings.Contains(s, "101") {
			t.Errorf("%s shows the secret: %s", verb, s)
		}
	}
}

// The formats' alphabets and lengths, as the providers give them.
var formatPatterns = map[Format]string{
	FormatUUID:        `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
	FormatBase64URL24: `^[A-Za-z0-9_-]{24}$`,
	FormatBase64URL32: `^[A-Za-z0-9_-]{32}$`,
	FormatHex40:       `^[0-9a-f]{40}$`,
	FormatHex64:       `^[0-9a-f]{64}$`,
	FormatClientHex40: `^client-[0-9a-f]{40}$`,
}

func TestFormatsHoldTheirAlphabets(t *testing.T) {
	d := testDeriver(t)
	for _, f := range Formats() {
		pattern := regexp.MustCompile(formatPatterns[f])
		seen := map[string]bool{}
		for r := range int32(500) {
			s, err := d.EffectKey(Identity{"shop", "mail", "k:1", r}).Encode(f)
			if err != nil || !pattern.MatchString(s) || seen[s] {
				t.Fatalf("%s: revision %d gives %q, %v (seen before: %v)", f, r, s, err, seen[s])
			}
			seen[s] = true
		}
		if got, err := ParseFormat(string(f)); got != f || err != nil {
			t.Errorf("ParseFormat(%q) = %q, %v", f, got, err)
		}
	}
	s, _ := d.EffectKey(Identity{}).Encode(FormatUUID)
	if u, err := uuid.Parse(s); err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		t.Errorf("%s is no UUID of version 8: %v", s, err)
	}
	if len(formatPatterns) != len(Formats()) {
		t.Errorf("%d formats, %d patterns", len(Formats()), len(formatPatterns))
	}
	if _, err := ParseFormat("hex"); err == nil {
		t.Error("an unknown format passes")
	}
	if s, err := (Derived{}).Encode("hex"); err == nil || s != "" {
		t.Errorf("an unknown format gives %q, %v", s, err)
	}
}

// Providers cap lengths; cutting the input would make long keys one. Keys that agree in their first 64 bytes stay apart.
func TestLongKeysStayApart(t *testing.T) {
	d := testDeriver(t)
	prefix := "order:" + strings.Repeat("x", 120)
	a, b := Identity{"shop", "push", Key(prefix + "1"), 0}, Identity{"shop", "push", Key(prefix + "2"), 0}
	for _, f := range Formats() {
		for name, pair := range map[string][2]Derived{
			"effect":      {d.EffectKey(a), d.EffectKey(b)},
			"collapse":    {d.CollapseKey(a, ""), d.CollapseKey(b, "")},
			"collapse id": {d.CollapseKey(a, prefix+"1"), d.CollapseKey(a, prefix+"2")},
		} {
			x, _ := pair[0].Encode(f)
			y, _ := pair[1].Encode(f)
			if x == y {
				t.Errorf("%s key as %s: %s for both", name, f, x)
			}
		}
	}
}

func TestCollapseKeyIsShared(t *testing.T) {
	d := testDeriver(t)
	id := Identity{"shop", "push", "order:1", 0}
	later := id
	later.Revision = 3
	if d.CollapseKey(id, "") != d.CollapseKey(later, "") {
		t.Error("two revisions of one fact do not collapse")
	}
	if d.EffectKey(id) == d.EffectKey(later) {
		t.Error("two revisions of one fact have one effect key: the second would be dropped by the provider")
	}
	other := Identity{"shop", "push", "order:2", 0}
	if d.CollapseKey(id, "inbox") != d.CollapseKey(other, "inbox") {
		t.Error("two facts with one collapse id do not collapse")
	}
	for name, stranger := range map[string]Identity{"caller": {"bank", "push", "order:1", 0}, "channel": {"shop", "chat", "order:1", 0}} {
		if d.CollapseKey(id, "inbox") == d.CollapseKey(stranger, "inbox") || d.CollapseKey(id, "") == d.CollapseKey(stranger, "") {
			t.Errorf("another %s replaces this one's notifications", name)
		}
	}
	if d.CollapseKey(id, "order:1") == d.CollapseKey(id, "") {
		t.Error("a collapse id that reads like a key is taken for it")
	}
}

func TestPurposesAndSecretsStayApart(t *testing.T) {
	d := testDeriver(t)
	other, err := NewDeriver(append([]byte("x"), testSecret...))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{1,4}`)
		id := Identity{name.Draw(t, "caller"), name.Draw(t, "channel"), Key(name.Draw(t, "kind") + ":x"), rapid.Int32Min(0).Draw(t, "revision")}
		effect, collapse, recipient := d.EffectKey(id), d.CollapseKey(id, ""), d.RecipientHash(string(id.Key))
		if effect == collapse || bytes.Equal(effect[:], recipient) || bytes.Equal(collapse[:], recipient) {
			t.Fatal("two purposes, one name")
		}
		if effect == other.EffectKey(id) || collapse == other.CollapseKey(id, "") || bytes.Equal(recipient, other.RecipientHash(string(id.Key))) {
			t.Fatal("two secrets, one name")
		}
	})
}

// Computed apart from this code, with Python's hmac and struct modules.
const (
	effectVector   = "574a65cf84cb61a5348b2057cdfaf2484d70b950012aa66441519c723925b44e"
	collapseVector = "bc885fee90a29c2430f25cc6636d5b488616d7f77a74eed0711be205cebc41a4"
)

// Effect keys of what is in flight must survive an upgrade: these are stored and known to providers.
func TestDerivationIsFixed(t *testing.T) {
	d := testDeriver(t)
	id := Identity{"shop", "mail", "receipt-mail:8841", 2}
	for want, got := range map[string]Derived{
		effectVector:   d.EffectKey(id),
		collapseVector: d.CollapseKey(id, ""),
	} {
		if s, _ := got.Encode(FormatHex64); s != want {
			t.Errorf("derived %s, want %s", s, want)
		}
	}
}
