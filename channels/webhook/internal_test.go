package webhook

import (
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// The example that the libraries of Standard Webhooks test against
// (https://github.com/standard-webhooks/standard-webhooks/tree/main/libraries).
func TestSignatureOfTheStandardsExample(t *testing.T) {
	secrets, err := parseSecrets([]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	if err != nil {
		t.Fatal(err)
	}
	got := signature(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestConflictIsARequestInProgressOnlyForIdempotencyKeys(t *testing.T) {
	x := channels.Exchange{Phase: channels.PhaseReply, Status: 409, Header: map[string][]string{"Retry-After": {"3"}}}
	if o := classify(DedupIdempotencyKey, x); o.Result() != channels.Throttled || o.Wait() != 3*time.Second {
		t.Errorf("%v, wait %v", o.Result(), o.Wait())
	}
	for _, d := range []Dedup{DedupNone, DedupWebhookID} {
		if o := classify(d, x); o.Result() != channels.Refused {
			t.Errorf("%s: %v", d, o.Result())
		}
	}
}

// Whatever is admitted is a fixed point, parses to what it says, and fits a request line.
func FuzzNormalURL(f *testing.F) {
	for _, s := range []string{
		"https://hooks.example.org/a?b=c", "HTTP://10.0.0.1:80", "https://BÜCHER.example:443/ü", "https://[::ffff:10.0.0.1]/",
		"https://a@b/", "https://good.example\\@evil.example/", "https://evil.example#@good.example/", "https://１０.０.０.１/", "https://a/%zz", "http://0\xfc",
	} {
		f.Add(s)
	}
	allow := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, raw string) {
		normal, err := normalURL(raw, allow)
		if err != nil {
			return
		}
		if again, err := normalURL(normal, allow); err != nil || again != normal {
			t.Errorf("%q → %q → %q, %v", raw, normal, again, err)
		}
		u, err := url.Parse(normal)
		if err != nil || u.User != nil || u.Fragment != "" || !graphic(u.RequestURI()) || len(normal) > maxRecipient {
			t.Errorf("%q → %q: %+v, %v", raw, normal, u, err)
			return
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && !channels.AllowedPrivate(allow, a) {
			t.Errorf("%q → %q", raw, normal)
		}
	})
}
