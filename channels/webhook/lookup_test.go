package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/webhook"
)

// Only the two answers that the package defines are evidence.
func TestLookUp(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   channels.Result
		id     string
	}{
		{200, `{"status":"accepted","id":"n-1"}`, channels.Accepted, "n-1"},
		{200, `{"status":"accepted"}`, channels.Accepted, ""},
		{200, `{"status":"not-found"}`, channels.NotSent, ""},
		{200, `{"status":"pending"}`, channels.Unknown, ""},
		{200, `{"status":""}`, channels.Unknown, ""},
		{200, `{"status":true}`, channels.Unknown, ""},
		{200, `<html>accepted</html>`, channels.Unknown, ""},
		{200, ``, channels.Unknown, ""},
		{202, `{"status":"accepted"}`, channels.Unknown, ""},
		{404, `{"status":"not-found"}`, channels.Unknown, ""},
		{302, `{"status":"accepted"}`, channels.Unknown, ""},
		{401, ``, channels.Unknown, ""},
		{503, ``, channels.Unknown, ""},
	} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Reply: reply(c.status, c.body)})
		ch := open(t, webhook.Config{AllowPrivate: loopback, LookupURL: p.URL("/look-up/{key}?v=1"), SigningSecrets: []string{"whsec_" + secretText}})
		if ch.Contract().LookUp != channels.LookUpPull {
			t.Error("the contract does not say look-up")
		}
		o := ch.LookUp(t.Context(), channels.Attempt{EffectKey: effectKey(1), Recipient: "https://hooks.example.org/"})
		if o.Result() != c.want || o.ProviderID() != c.id || o.Code() != "look-up" {
			t.Errorf("%d %s: %v id %q code %q", c.status, c.body, o.Result(), o.ProviderID(), o.Code())
		}
		r := p.Requests()[0]
		if r.Method != http.MethodGet || r.RequestURI != "/look-up/"+effectKey(1)+"?v=1" || r.Header.Get("webhook-id") != effectKey(1) || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			t.Errorf("asked %s %s with %v", r.Method, r.RequestURI, r.Header)
		}
	}
}

func TestLookUpWithoutADefiniteReplyIsUnknown(t *testing.T) {
	for _, fault := range []channeltest.Fault{
		channeltest.FaultDialRefused, channeltest.FaultCloseAfter, channeltest.FaultSilence, channeltest.FaultBreakAfter, channeltest.FaultGarbage,
	} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Fault: fault})
		c := webhook.Config{AllowPrivate: loopback, LookupURL: p.URL("/{key}")}
		if fault == channeltest.FaultSilence {
			c.Timeout = time.Second
		}
		ch := open(t, c)
		if o := ch.LookUp(t.Context(), channels.Attempt{EffectKey: effectKey(1)}); o.Result() != channels.Unknown || strings.Contains(o.Message(), p.Addr()) {
			t.Errorf("%s: %v %q", fault, o.Result(), o.Message())
		}
	}
	if o := open(t, webhook.Config{}).LookUp(t.Context(), channels.Attempt{EffectKey: effectKey(1)}); o.Result() != channels.Unknown {
		t.Errorf("without a URL: %v", o.Result())
	}
}
