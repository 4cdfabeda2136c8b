package smtp

import (
	"errors"
	"net/mail"
	"strings"
	"testing"

	"github.com/onebell/onebell/channels"
)

const goodContent = `{"subject":"Hello","text":"Hello"}`

// badAddresses are refused; the first ones are those of report X1.
var badAddresses = []string{
	`"toni.tester@example.com> ORCPT=admin@admin.com"@example.com`, `"xclow3n@gmail.com x"@internal.domain`,
	"a@b.c\r\nRCPT TO:<x@y>", "<a@b.c>", "A <a@b.c>, d@e.f", "a@b.c, d@e.f", "a@b.c;d@e.f",
	`"a"@b.c`, `"a@b"@c.de`, `"a>b"@c.de`, `a"b@c.de`, "", "a", "@", "a@", "@b.c", "a@b@c", "a b@c.de", " a@b.c", "a@b.c ", "a@b.c\n", "a\x00@b.c", "a@b.c\x00", "a\t@b.c",
	"a@b.c> ORCPT=rfc822;x@y", "a@b.c NOTIFY=NEVER", `a\@b@c.de`, "a(comment)@b.c", "group:a@b.c", "a@[127.0.0.1]", "a@127.0.0.1", "a@b.123",
	".a@b.c", "a.@b.c", "a..b@c.de", "a@b..c", "a@.b.c", "a@b.c.", "a@-b.c", "a@b-.c", "a@b_c.de", "a@b.c/d", "a@b%c.de",
	"a\u200b@b.c", "a\u202e@b.c", "a\u00a0@b.c", "a@b.c\u2028", "\xff@b.c", "a@\xff.c", "a@xn--a.de", "a@xn--\u00fc.de",
	strings.Repeat("a", 65) + "@b.c", "a@" + strings.Repeat("b", 64) + ".c", "a@" + strings.Repeat("b.", 130) + "c",
}

func TestX1OnlyOneBareAddressIsTaken(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1")
	for _, s := range badAddresses {
		_, err := c.Validate(s, []byte(goodContent))
		var r *channels.Refusal
		if !errors.As(err, &r) || r.Code != channels.CodeRecipientInvalid || r.Field != "recipient" {
			t.Errorf("%q: %v, want a refusal of the recipient", s, err)
			continue
		}
		if len(s) > 4 && strings.Contains(r.Error(), s) {
			t.Errorf("%q: the refusal repeats it: %v", s, r)
		}
	}
}

func TestX1NothingStoredIsSmuggled(t *testing.T) {
	p := newPeer(t, nil)
	c := newChannel(t, p.addr)
	for _, s := range badAddresses {
		a := hello(t, c)
		a.Recipient = s
		if o := c.Send(t.Context(), a); o.Result() != channels.Refused {
			t.Errorf("%q: %v", s, o.Result())
		}
	}
	if n := p.connections(); n != 0 {
		t.Errorf("%d connections for recipients that are none", n)
	}
}

func TestX1TheEnvelopeIsTheStoredAddress(t *testing.T) {
	p := newPeer(t, nil)
	c := newChannel(t, p.addr)
	for i, s := range []string{"a@b.c", "Ada.Lovelace+x@example.org", "o'brien_=/?^`{|}~!#$%&*-@example.org"} {
		a := attempt(t, c, message(testKey(byte(i)), s, goodContent))
		if o := c.Send(t.Context(), a); o.Result() != channels.Accepted {
			t.Fatalf("%q: %v %s", s, o.Result(), o.Message())
		}
		if got, want := p.dots()[i].rcpt, "TO:<"+s+">"; got != want {
			t.Errorf("on the wire %q, want %q", got, want)
		}
		if got := p.dots()[i].from; !strings.HasPrefix(got, "FROM:<shop@example.com>") {
			t.Errorf("sender on the wire %q", got)
		}
	}
}

func TestD6DomainInLowerCaseLocalPartUntouched(t *testing.T) {
	for in, want := range map[string]string{
		"Ada@Example.ORG": "Ada@example.org", "ada@example.org": "ada@example.org", "Ada@example.org": "Ada@example.org",
	} {
		if got, err := parseAddress(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestB6DomainsInASCII(t *testing.T) {
	for in, want := range map[string]string{
		"x@bücher.com": "x@xn--bcher-kva.com", "x@xn--bcher-kva.com": "x@xn--bcher-kva.com", "x@BÜCHER.com": "x@xn--bcher-kva.com",
		"x@bu\u0308cher.com": "x@xn--bcher-kva.com", "x@straße.de": "x@xn--strae-oqa.de", "коля@пример.рф": "коля@xn--e1afmkfd.xn--p1ai",
		"x@r3---sn.example.org": "x@r3---sn.example.org", "x@localhost": "x@localhost", "x@例え。jp": "x@xn--r8jz45g.jp",
	} {
		if got, err := parseAddress(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

// FuzzAddress: whatever is taken is one address for everybody who reads it, and its own normal form.
func FuzzAddress(f *testing.F) {
	for _, s := range append(badAddresses, "x@bücher.com", "Ada@Example.ORG", "коля@пример.рф") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		normal, err := parseAddress(s)
		if err != nil {
			return
		}
		if again, err := parseAddress(normal); err != nil || again != normal {
			t.Errorf("%q became %q became %q, %v", s, normal, again, err)
		}
		if strings.ContainsAny(normal, " \r\n\t\x00<>\"\\,;:()[]") || strings.Count(normal, "@") != 1 {
			t.Errorf("%q became %q", s, normal)
		}
		local, domain, _ := strings.Cut(normal, "@")
		if !strings.HasPrefix(s, local+"@") || domain != strings.ToLower(domain) || !isASCII(domain) {
			t.Errorf("%q became %q", s, normal)
		}
		if parsed, err := mail.ParseAddress(normal); err != nil || parsed.Address != normal || parsed.Name != "" {
			t.Errorf("net/mail reads %q as %v, %v", normal, parsed, err)
		}
	})
}
