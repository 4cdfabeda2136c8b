package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/webhook"
)

const (
	secretText = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secondText = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func effectKey(i int) string { return fmt.Sprintf("c5a3e1f0-0000-8000-8000-%012d", i) }

// seenKey is what a receiver would deduplicate on. Two headers that disagree are no key.
func seenKey(h http.Header) string {
	id, key := h.Get("Webhook-Id"), strings.Trim(h.Get("Idempotency-Key"), `"`)
	if key != "" && key != id {
		return "disagree: " + id + " " + key
	}
	return id
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		config webhook.Config
		plain  bool
	}{
		"none":                {config: webhook.Config{}},
		"idempotency-key":     {config: webhook.Config{Dedup: webhook.DedupIdempotencyKey, KeyWindow: time.Hour, Quoted: true}},
		"webhook-id":          {config: webhook.Config{Dedup: webhook.DedupWebhookID, KeyWindow: time.Hour}},
		"webhook-id in plain": {config: webhook.Config{Dedup: webhook.DedupWebhookID, KeyWindow: time.Hour}, plain: true},
	} {
		t.Run(name, func(t *testing.T) { channeltest.Run(t, kit(c.config, c.plain)) })
	}
}

func kit(config webhook.Config, plain bool) channeltest.Kit {
	k := channeltest.Kit{
		New: func(t *testing.T, env channeltest.Env) channeltest.Subject {
			p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{
				Fault: env.Fault, Skip: env.Skip, TLS: !plain, Key: seenKey, Header: http.Header{"Retry-After": {"7"}},
			})
			config := config
			config.Timeout, config.AllowPrivate, config.RootCAs = env.Timeout, loopback, p.Roots
			config.SigningSecrets = []string{"whsec_" + secretText}
			ch, err := webhook.New(config)
			if err != nil {
				t.Fatal(err)
			}
			return channeltest.Subject{
				Channel: ch, Peer: p,
				Recipient:     func(i int) string { return p.URL(fmt.Sprintf("/canary-path/%06d?t=canary-query", i)) },
				SameRecipient: func(arrived, recipient string) bool { return strings.HasSuffix(recipient, arrived) },
				Canaries:      []string{"canary-path", "canary-query", p.Addr(), secretText},
			}
		},
		Cases:     cases(config, plain),
		EffectKey: effectKey,
		Content: func(i int) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"type":"receipt.ready","data":{"is":%q}}`, channeltest.Marker(i)))
		},
		Bad: badInputs(),
	}
	if plain {
		k.Exempt = map[channeltest.Fault]string{
			channeltest.FaultHandshake: "plain HTTP has no handshake", channeltest.FaultStall: "plain HTTP has no handshake",
		}
	}
	return k
}

// withoutReply is what an attempt says that no reply came to.
func withoutReply(plain bool) []channeltest.Case {
	connect := []channels.Phase{channels.PhaseConnect}
	committed := []channels.Phase{channels.PhaseCommitted}
	list := []channeltest.Case{
		{Fault: channeltest.FaultDialRefused, Result: channels.NotSent, Phases: connect, Code: channels.HTTPDial},
		// whether the close is seen before or after the request is written is a matter of time
		{
			Fault: channeltest.FaultCloseBefore, Result: channels.Unknown, Or: []channels.Result{channels.NotSent},
			Phases: []channels.Phase{channels.PhaseConnect, channels.PhaseRequest, channels.PhaseCommitted},
		},
		{Fault: channeltest.FaultCloseMid, Result: channels.Unknown, Phases: committed, Code: channels.HTTPLost},
		{Fault: channeltest.FaultCloseAfter, Result: channels.Unknown, Phases: committed, Code: channels.HTTPLost, Arrivals: 1},
		{Fault: channeltest.FaultResetAfter, Result: channels.Unknown, Phases: committed, Code: channels.HTTPLost, Arrivals: 1},
		{Fault: channeltest.FaultSilence, Result: channels.Unknown, Phases: committed, Code: channels.HTTPTimeout, Arrivals: 1},
		{Fault: channeltest.FaultTruncated, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultGarbage, Result: channels.Unknown, Phases: committed, Code: channels.HTTPMalformed, Arrivals: 1},
		{Fault: channeltest.FaultHeaderFlood, Result: channels.Unknown, Phases: committed, Code: channels.HTTPMalformed, Arrivals: 1},
		{Fault: channeltest.FaultCloseAfter, Warm: true, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultResetAfter, Warm: true, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{
			Fault: channeltest.FaultCloseBefore, Warm: true, Result: channels.Unknown, Or: []channels.Result{channels.NotSent},
			Phases: []channels.Phase{channels.PhaseConnect, channels.PhaseRequest, channels.PhaseCommitted},
		},
	}
	if !plain {
		list = append(list,
			channeltest.Case{Fault: channeltest.FaultHandshake, Result: channels.NotSent, Phases: connect, Code: channels.HTTPTLS},
			channeltest.Case{Fault: channeltest.FaultStall, Result: channels.NotSent, Phases: connect, Code: channels.HTTPTimeout})
	}
	return list
}

func cases(config webhook.Config, plain bool) []channeltest.Case {
	list, reply := withoutReply(plain), []channels.Phase{channels.PhaseReply}
	for _, f := range []channeltest.Fault{
		channeltest.FaultNone, channeltest.FaultBreakAfter, channeltest.FaultDrip, channeltest.FaultFlood, channeltest.FaultBomb,
	} {
		list = append(list, channeltest.Case{Fault: f, Result: channels.Accepted, Phases: reply, Code: "200", Arrivals: 1})
	}
	for status, result := range statuses(config.Dedup) {
		list = append(list, channeltest.Case{
			Fault: channeltest.FaultStatus(status), Result: result, Phases: reply, Code: fmt.Sprint(status), Arrivals: 1,
		})
	}
	return list
}

// statuses is what the design says of each class (providers.md sections 1 and 6, report B4).
func statuses(d webhook.Dedup) map[int]channels.Result {
	table := map[int]channels.Result{409: channels.Refused, 408: channels.Unknown, 425: channels.Throttled, 429: channels.Throttled}
	if d == webhook.DedupIdempotencyKey {
		table[409] = channels.Throttled
	}
	for result, codes := range map[channels.Result][]int{
		channels.Accepted: {201, 202, 204, 206},
		channels.Refused:  {300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 410, 413, 422, 451},
		channels.Unknown:  {500, 501, 502, 503, 504, 599},
	} {
		for _, code := range codes {
			table[code] = result
		}
	}
	return table
}

func badInputs() []channeltest.BadInput {
	recipient := func(name, url string) channeltest.BadInput {
		return channeltest.BadInput{Name: name, Recipient: url, Code: channels.CodeRecipientInvalid, Field: "recipient"}
	}
	content := func(name, field, text string) channeltest.BadInput {
		return channeltest.BadInput{Name: name, Content: json.RawMessage(text), Code: channels.CodeContentInvalid, Field: field}
	}
	return []channeltest.BadInput{
		recipient("X3 userinfo", "https://user:password@hooks.example.org/"),
		recipient("X3 empty userinfo", "https://@hooks.example.org/"),
		recipient("fragment", "https://hooks.example.org/#part"),
		recipient("empty fragment", "https://hooks.example.org/#"),
		recipient("too long", "https://hooks.example.org/"+strings.Repeat("a", 2048)),
		recipient("too long once encoded", "https://hooks.example.org/"+strings.Repeat("é", 700)),
		recipient("relative", "/hooks/receiver-1"),
		recipient("other scheme", "ftp://hooks.example.org/"),
		recipient("opaque", "https:hooks.example.org"),
		recipient("no host", "https:///path-alone"),
		recipient("no URL", "ada@example.org"),
		recipient("line break", "https://hooks.example.org/\r\nX-Evil: 1"),
		recipient("blank in the query", "https://hooks.example.org/?a b"),
		recipient("X3 metadata service", "https://169.254.169.254/latest"),
		recipient("X3 private address", "https://10.0.0.7/internal"),
		recipient("X3 public address", "https://93.184.215.14/hook"),
		recipient("X3 unspecified", "https://0.0.0.0/internal"),
		recipient("X3 IPv6 loopback", "https://[::1]/internal"),
		recipient("X3 decimal address", "https://2130706433/internal"),
		recipient("X3 short address", "https://127.1/internal"),
		recipient("X3 hexadecimal address", "https://0x7f000001/internal"),
		recipient("X3 octal address", "https://0177.0.0.01/internal"),
		recipient("X3 full-width digits", "https://１０.０.０.７/internal"),
		recipient("zone", "https://[fe80::1%25eth0]/internal"),
		recipient("port 0", "https://hooks.example.org:0/"),
		recipient("port too large", "https://hooks.example.org:65536/"),
		recipient("bad name", "https://-hooks-.example.org/"),
		recipient("label too long", "https://"+strings.Repeat("a", 64)+".example.org/"),
		recipient("bad punycode", "https://xn--99999999999.example.org/"),
		content("no object", "content", `[]`),
		content("null", "content", `null`),
		content("no JSON", "content", `{"type":`),
		content("unknown member", "content", `{"type":"a","data":{},"extra":1}`),
		content("case matters", "content", `{"Type":"a","data":{}}`),
		content("no type", "content.type", `{"data":{}}`),
		content("null type", "content.type", `{"type":null,"data":{}}`),
		content("empty type", "content.type", `{"type":"","data":{}}`),
		content("blank in the type", "content.type", `{"type":"a b","data":{}}`),
		content("long type", "content.type", `{"type":"`+strings.Repeat("a", 129)+`","data":{}}`),
		content("no data", "content.data", `{"type":"a"}`),
		content("null data", "content.data", `{"type":"a","data":null}`),
		content("list as data", "content.data", `{"type":"a","data":[]}`),
		{
			Name: "B3 too large", Code: channels.CodeContentTooLarge, Field: "content",
			Content: json.RawMessage(`{"type":"a","data":{"x":"` + strings.Repeat("x", 256<<10) + `"}}`),
		},
	}
}
