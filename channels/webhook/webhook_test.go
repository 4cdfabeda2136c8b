package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/webhook"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func open(t *testing.T, c webhook.Config) *webhook.Channel {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute // longer than a slow machine takes for anything
	}
	ch, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.Close() })
	return ch
}

var good = json.RawMessage(`{"type":"a","data":{}}`)

func TestRecipientsHaveOneNormalForm(t *testing.T) {
	public := open(t, webhook.Config{})
	private := open(t, webhook.Config{AllowPrivate: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	for _, c := range []struct {
		ch       *webhook.Channel
		in, want string
	}{
		{public, "https://hooks.example.org/a/b?c=d", "https://hooks.example.org/a/b?c=d"},
		{public, "HTTPS://Hooks.Example.ORG", "https://hooks.example.org/"},
		{public, "https://hooks.example.org:443/A", "https://hooks.example.org/A"},
		{public, "https://hooks.example.org:0443/", "https://hooks.example.org/"},
		{public, "https://hooks.example.org:/", "https://hooks.example.org/"},
		{public, "https://hooks.example.org.:8443/", "https://hooks.example.org:8443/"},
		{public, "https://BÜCHER.example/ü?q=%C3%BC", "https://xn--bcher-kva.example/%C3%BC?q=%C3%BC"},
		{public, "https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"},
		{public, "https://hooks.example.org/a%2Fb%20c", "https://hooks.example.org/a%2Fb%20c"},
		{public, "https://hooks.example.org/?", "https://hooks.example.org/"},
		{private, "http://receiver_1:9000/hook", "http://receiver_1:9000/hook"},
		{private, "http://receiver:80/", "http://receiver/"},
		{private, "http://10.1.2.3:8080/", "http://10.1.2.3:8080/"},
		{private, "https://[::FFFF:10.1.2.3]/", "https://10.1.2.3/"},
		{private, "https://[FD00::00:1]:443/", "https://[fd00::1]/"},
		{private, "https://hooks.example.org:9443/", "https://hooks.example.org:9443/"},
	} {
		got, err := c.ch.Validate(c.in, good)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.in, got, err, c.want)
			continue
		}
		if again, err := c.ch.Validate(got, good); err != nil || again != got {
			t.Errorf("%s is no fixed point: %q, %v", got, again, err)
		}
	}
	for _, in := range []string{"http://hooks.example.org/", "http://10.1.2.3/", "https://10.1.2.3/", "https://hooks.example.org:9443/", "https://[fd00::1]/"} {
		if got, err := public.Validate(in, good); err == nil {
			t.Errorf("%s without ALLOW_PRIVATE: %q", in, got)
		}
	}
}

// The body is made once, with every digit of the producer's numbers; type and time come first.
func TestRenderedBody(t *testing.T) {
	at := time.Date(2026, 11, 30, 11, 0, 0, 120_000_000, time.FixedZone("", 3600))
	got, err := open(t, webhook.Config{}).Render(channels.Message{
		Content:    json.RawMessage("{ \"data\" : {\"b\":1.0, \"a\":9007199254740993, \"html\":\"<b>&\\u00e9\"},\n \"type\":\"receipt.ready\"}"),
		OccurredAt: at,
	})
	const want = `{"type":"receipt.ready","timestamp":"2026-11-30T10:00:00.12Z","data":{"b":1.0,"a":9007199254740993,"html":"<b>&\u00e9"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

// The published schema and the check at admission say the same.
func TestSchemaAgreesWithValidate(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(webhook.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	samples := []json.RawMessage{good, json.RawMessage(`{"type":"a..b","data":{}}`), json.RawMessage(`{"type":"a.b_c-D9","data":{"x":[1,null]}}`), json.RawMessage(`{"type":"é","data":{}}`), json.RawMessage(`7`)}
	for _, example := range doc.(map[string]any)["examples"].([]any) {
		b, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, b)
	}
	for _, b := range badInputs() {
		if b.Content != nil && b.Code == channels.CodeContentInvalid {
			samples = append(samples, b.Content)
		}
	}
	ch := open(t, webhook.Config{})
	valid := 0
	for _, sample := range samples {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(sample))
		bySchema := err == nil && schema.Validate(value) == nil
		_, err = ch.Validate("https://hooks.example.org/", sample)
		if bySchema != (err == nil) {
			t.Errorf("%s: valid by the schema %v, by Validate %v", sample, bySchema, err)
		}
		if bySchema {
			valid++
		}
	}
	if valid < 4 || valid == len(samples) {
		t.Errorf("%d of %d samples are valid: the comparison shows nothing", valid, len(samples))
	}
}

// A receiver verifies with its own code: id, time and body as they came, any of the secrets.
func TestReceiversCanVerify(t *testing.T) {
	p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
	ch := open(t, webhook.Config{AllowPrivate: loopback, SigningSecrets: []string{"whsec_" + secretText, "whsec_" + secondText}})
	a := channels.Attempt{EffectKey: effectKey(1), Recipient: p.URL("/"), Rendered: []byte(`{"type":"a"}`)}
	if o := ch.Send(t.Context(), a); o.Result() != channels.Accepted {
		t.Fatal(o.Code())
	}
	h := p.Requests()[0].Header
	seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
		t.Errorf("webhook-timestamp %q is not the time of the attempt", h.Get("webhook-timestamp"))
	}
	var want []string
	for _, text := range []string{secretText, secondText} {
		secret, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%d.%s", h.Get("webhook-id"), seconds, p.Arrivals()[0].Body)
		want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if got := h.Get("webhook-signature"); got != strings.Join(want, " ") {
		t.Errorf("webhook-signature %q, want %q", got, want)
	}
	if h.Get("Content-Type") != "application/json" || strings.Contains(h.Get("webhook-id"), ".") {
		t.Errorf("headers %v", h)
	}
}

func TestEffectKeyInTheHeadersOfEachDedup(t *testing.T) {
	for _, c := range []struct {
		config    webhook.Config
		key       string // Idempotency-Key
		guarantee channels.Guarantee
		field     string
	}{
		{webhook.Config{}, "", channels.DuplicateVisible, ""},
		{webhook.Config{Dedup: webhook.DedupNone, Quoted: true}, "", channels.DuplicateVisible, ""},
		{webhook.Config{Dedup: webhook.DedupWebhookID, KeyWindow: time.Hour}, "", channels.Keyed, "webhook-id"},
		{webhook.Config{Dedup: webhook.DedupIdempotencyKey, KeyWindow: time.Hour}, effectKey(1), channels.Keyed, "idempotency-key"},
		{webhook.Config{Dedup: webhook.DedupIdempotencyKey, KeyWindow: time.Hour, Quoted: true}, `"` + effectKey(1) + `"`, channels.Keyed, "idempotency-key"},
	} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
		c.config.AllowPrivate = loopback
		ch := open(t, c.config)
		ch.Send(t.Context(), channels.Attempt{EffectKey: effectKey(1), Recipient: p.URL("/"), Rendered: []byte(`{}`)})
		h := p.Requests()[0].Header
		if h.Get("webhook-id") != effectKey(1) || h.Get("Idempotency-Key") != c.key || h.Get("webhook-signature") != "" {
			t.Errorf("%+v: headers %v", c.config, h)
		}
		k := ch.Contract()
		if k.Guarantee != c.guarantee || k.KeyField != c.field || k.KeyWindow != c.config.KeyWindow {
			t.Errorf("%+v: contract %+v", c.config, k)
		}
	}
}

// Where a repeat would be seen, no attempt is risked on a connection that the receiver may just be closing.
func TestConnectionsAreReusedOnlyWhereARepeatIsHarmless(t *testing.T) {
	for dedup, want := range map[webhook.Dedup]int{webhook.DedupNone: 3, webhook.DedupWebhookID: 1} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
		ch := open(t, webhook.Config{Dedup: dedup, KeyWindow: time.Hour, AllowPrivate: loopback})
		for i := range 3 {
			ch.Send(t.Context(), channels.Attempt{EffectKey: effectKey(i), Recipient: p.URL("/"), Rendered: []byte(`{}`)})
		}
		if got := p.Connections(); got != want {
			t.Errorf("%s: %d connections for three sends, want %d", dedup, got, want)
		}
	}
}

// Keys hang on where and how they are written, not on the secrets that sign: rotating those leaves intents in doubt alone.
func TestKeyScope(t *testing.T) {
	scope := func(c webhook.Config) string { c.KeyWindow = time.Hour; return open(t, c).Contract().KeyScope }
	id := scope(webhook.Config{Dedup: webhook.DedupWebhookID})
	bare := scope(webhook.Config{Dedup: webhook.DedupIdempotencyKey})
	quoted := scope(webhook.Config{Dedup: webhook.DedupIdempotencyKey, Quoted: true})
	if id == "" || id == bare || bare == quoted || id == quoted {
		t.Errorf("scopes %q %q %q must differ", id, bare, quoted)
	}
	if rotated := scope(webhook.Config{Dedup: webhook.DedupWebhookID, SigningSecrets: []string{"whsec_" + secretText}}); rotated != id {
		t.Error("a signing secret changes the scope")
	}
}

// W2 of receivers: Standard Webhooks knows no error in the body of a 2xx; what it says is kept for people.
func TestW2StatusDecidesNotTheBody(t *testing.T) {
	p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Reply: reply(200, `{"ok":false,"error":"later"}`)})
	o := open(t, webhook.Config{AllowPrivate: loopback}).Send(t.Context(), channels.Attempt{EffectKey: "k", Recipient: p.URL("/"), Rendered: []byte(`{}`)})
	if o.Result() != channels.Accepted || o.Message() != `{"ok":false,"error":"later"}` {
		t.Errorf("%v %q", o.Result(), o.Message())
	}
}

func TestGoneIsADeadRecipient(t *testing.T) {
	for status, dead := range map[int]bool{410: true, 404: false, 400: false} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Reply: reply(status, "")})
		o := open(t, webhook.Config{AllowPrivate: loopback}).Send(t.Context(), channels.Attempt{EffectKey: "k", Recipient: p.URL("/"), Rendered: []byte(`{}`)})
		if o.DeadRecipient() != dead || o.Result() != channels.Refused {
			t.Errorf("%d: dead %v, %v", status, o.DeadRecipient(), o.Result())
		}
	}
}

func reply(status int, body string) func(io.Writer, *http.Request, []byte) {
	return func(w io.Writer, _ *http.Request, _ []byte) {
		fmt.Fprintf(w, "HTTP/1.1 %d X\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	}
}

func TestConfigErrorsNameTheVariable(t *testing.T) {
	const sec = time.Second
	for variable, configs := range map[string][]webhook.Config{
		"TIMEOUT":    {{}},
		"DEDUP":      {{Dedup: "maybe", Timeout: sec}},
		"KEY_WINDOW": {{Dedup: webhook.DedupWebhookID, Timeout: sec}, {Dedup: webhook.DedupIdempotencyKey, KeyWindow: -1, Timeout: sec}},
		"SIGNING_SECRET": {
			{Timeout: sec, SigningSecrets: []string{secretText}},
			{Timeout: sec, SigningSecrets: []string{"whsec_" + secretText, "whsec_c2hvcnQ="}},
			{Timeout: sec, SigningSecrets: []string{"whsec_" + strings.Repeat("QUFB", 22)}},
			{Timeout: sec, SigningSecrets: []string{"whsec_!" + secretText}},
		},
		"LOOKUP_URL": {
			{Timeout: sec, LookupURL: "https://hooks.example.org/"},
			{Timeout: sec, LookupURL: "https://hooks.example.org/{key}/{key}"},
			{Timeout: sec, LookupURL: "http://hooks.example.org/{key}"},
			{Timeout: sec, LookupURL: "https://user:pw@hooks.example.org/{key}"},
		},
	} {
		for _, c := range configs {
			_, err := webhook.New(c)
			if err == nil || !strings.Contains(err.Error(), variable) {
				t.Errorf("%+v: %v, want an error that names %s", c, err, variable)
				continue
			}
			for _, secret := range append(c.SigningSecrets, "user:pw") {
				if strings.Contains(err.Error(), strings.TrimPrefix(secret, "whsec_")) { // X5
					t.Errorf("the error shows a secret: %v", err)
				}
			}
		}
	}
}

func TestRefusalsAreRefusals(t *testing.T) {
	var r *channels.Refusal
	if _, err := open(t, webhook.Config{}).Render(channels.Message{Content: json.RawMessage(`[]`)}); !errors.As(err, &r) {
		t.Errorf("Render returned %v", err)
	}
}
