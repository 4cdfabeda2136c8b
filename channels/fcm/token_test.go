package fcm_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
)

const freshToken = `{"access_token":"` + accessToken + `","expires_in":3599,"token_type":"Bearer"}`

// claims returns header and claims of the signed request in the token endpoint's n-th arrival.
func claims(t *testing.T, p *channeltest.HTTPPeer, n int) (head, claims map[string]any, assertion string) {
	t.Helper()
	form, err := url.ParseQuery(string(p.Arrivals()[n].Body))
	if err != nil || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		t.Fatalf("%v %v", form, err)
	}
	assertion = form.Get("assertion")
	part := strings.Split(assertion, ".")
	for i, into := range []*map[string]any{&head, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(part[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	return head, claims, assertion
}

func TestOneAccessTokenForManySends(t *testing.T) {
	r := newRig(t, channeltest.HTTPOptions{Reply: taken}, channeltest.HTTPOptions{}, patience)
	a := attempt(t, r, `{"title":"a"}`)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if o := r.Send(t.Context(), a); o.Result() != channels.Accepted || o.ProviderID() != "projects/"+project+"/messages/0:1" {
				t.Errorf("%v %s %q", o.Result(), o.Code(), o.ProviderID())
			}
		})
	}
	wg.Wait()
	if n := len(r.token.Arrivals()); n != 1 {
		t.Errorf("%d requests for access tokens", n)
	}
	head, c, _ := claims(t, r.token, 0)
	if head["kid"] != "key-1" || c["iss"] != "onebell@"+project+".iam.gserviceaccount.com" || c["aud"] != r.token.URL("/token") || c["scope"] != "https://www.googleapis.com/auth/firebase.messaging" {
		t.Errorf("%v %v", head, c)
	}
	for _, q := range r.fcm.Requests() {
		if q.RequestURI != "/v1/projects/"+project+"/messages:send" || q.Header.Get("Authorization") != "Bearer "+accessToken {
			t.Errorf("%s %v", q.RequestURI, q.Header)
		}
	}
}

// W3: a failure of the token endpoint is no send, uses up nothing where the credentials are at fault, and is not tried again
// within the attempt.
func TestW3FailuresOfTheTokenEndpoint(t *testing.T) {
	refusal := func(code string) string {
		return `{"error":"` + code + `","error_description":"Invalid JWT Signature."}`
	}
	with := func(status int, body string, lines ...string) channeltest.HTTPOptions {
		return channeltest.HTTPOptions{Reply: reply(status, body, lines...)}
	}
	for name, c := range map[string]struct {
		endpoint channeltest.HTTPOptions
		want     channels.Result
		code     string
		wait     time.Duration
	}{
		"revoked key or wrong clock": {with(400, refusal("invalid_grant")), channels.Misconfigured, "invalid_grant", 0},
		"unknown account":            {with(401, refusal("invalid_client")), channels.Misconfigured, "invalid_client", 0},
		"scope":                      {with(403, refusal("access_denied")), channels.Misconfigured, "access_denied", 0},
		"wrong token_uri":            {with(404, "<html>"), channels.Misconfigured, "access-token", 0},
		"redirected":                 {with(302, "", "Location: /elsewhere"), channels.Misconfigured, "access-token", 0},
		"a page":                     {with(200, "<html>"), channels.Misconfigured, "access-token", 0},
		"no token in it":             {with(200, `{"token_type":"Bearer"}`), channels.Misconfigured, "access-token", 0},
		"a token that is none":       {with(200, `{"access_token":"a\r\nX-Evil: 1"}`), channels.Misconfigured, "access-token", 0},
		"throttled":                  {with(429, "", "Retry-After: 9"), channels.NotSent, "access-token", 9 * time.Second},
		"unavailable":                {with(503, ""), channels.NotSent, "access-token", 0},
		"internal":                   {with(500, refusal("internal_failure")), channels.NotSent, "access-token", 0},
		"closed":                     {channeltest.HTTPOptions{Fault: channeltest.FaultCloseAfter}, channels.NotSent, "access-token-connection-lost", 0},
		"reset":                      {channeltest.HTTPOptions{Fault: channeltest.FaultResetAfter}, channels.NotSent, "access-token-connection-lost", 0},
		"silent":                     {channeltest.HTTPOptions{Fault: channeltest.FaultSilence}, channels.NotSent, "access-token-timeout", 0},
		"cut":                        {channeltest.HTTPOptions{Fault: channeltest.FaultBreakAfter}, channels.NotSent, "access-token", 0},
		"garbage":                    {channeltest.HTTPOptions{Fault: channeltest.FaultGarbage}, channels.NotSent, "access-token-malformed-reply", 0},
		"not listening":              {channeltest.HTTPOptions{Fault: channeltest.FaultDialRefused}, channels.NotSent, "access-token-dial", 0},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := patience
			if name == "silent" {
				timeout = time.Second
			}
			r := newRig(t, channeltest.HTTPOptions{Reply: taken}, c.endpoint, timeout)
			o := r.Send(t.Context(), attempt(t, r, `{"title":"a"}`))
			if o.Result() != c.want || o.Code() != c.code || o.Wait() != c.wait || o.Phase() != channels.PhaseConnect {
				t.Errorf("%v %q wait %v at %q (%s)", o.Result(), o.Code(), o.Wait(), o.Phase(), o.Message())
			}
			if n := r.fcm.Connections(); n != 0 {
				t.Errorf("%d connections to FCM", n)
			}
			if n := len(r.token.Arrivals()); n > 1 || n == 0 && name != "not listening" {
				t.Errorf("%d requests to the token endpoint", n)
			}
		})
	}
}

// The signed request is as good as a password for an hour; an endpoint may well quote it.
func TestTheSignedRequestIsNotShown(t *testing.T) {
	quote := func(w io.Writer, _ *http.Request, body []byte) {
		form, _ := url.ParseQuery(string(body)) // the test fails below if it is none
		reply(400, `{"error":"invalid_grant","error_description":"not taken: `+form.Get("assertion")+`"}`)(w, nil, nil)
	}
	r := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{Reply: quote}, patience)
	o := r.Send(t.Context(), attempt(t, r, `{"title":"a"}`))
	_, _, assertion := claims(t, r.token, 0)
	if o.Result() != channels.Misconfigured || strings.Contains(o.Message(), assertion[:40]) || !strings.Contains(o.Message(), "not taken: […]") {
		t.Errorf("%v %q", o.Result(), o.Message())
	}
}

// A refused access token is dropped, and the file is read again: a key is rotated without a restart.
func TestCredentialsAreReadAgain(t *testing.T) {
	refused := reply(401, googleError(401, "UNAUTHENTICATED", "", "Request had invalid authentication credentials."))
	r := newRig(t, channeltest.HTTPOptions{Reply: inTurn(refused, taken, refused, taken)}, channeltest.HTTPOptions{}, patience)
	a := attempt(t, r, `{"title":"a"}`)
	send := func(want channels.Result, code string) {
		t.Helper()
		if o := r.Send(t.Context(), a); o.Result() != want || code != "" && o.Code() != code {
			t.Errorf("%v %s %s, want %v %s", o.Result(), o.Code(), o.Message(), want, code)
		}
	}
	send(channels.Misconfigured, "UNAUTHENTICATED")
	writeCredentials(t, r.credentials, "key-2", r.token.URL("/token"))
	send(channels.Accepted, "")
	if head, _, _ := claims(t, r.token, 1); head["kid"] != "key-2" {
		t.Errorf("signed with %v", head["kid"])
	}
	send(channels.Misconfigured, "UNAUTHENTICATED")
	if err := os.WriteFile(r.credentials, []byte("hunter2-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	send(channels.Misconfigured, "credentials-file")
	if o := r.Send(t.Context(), a); strings.Contains(o.Message(), "hunter2") || strings.Contains(o.Message(), r.credentials) {
		t.Errorf("X5: %q", o.Message())
	}
	if n := len(r.fcm.Arrivals()); n != 3 {
		t.Errorf("%d requests to FCM", n)
	}
}

// An attempt that ends while it fetches a token leaves nothing to those that wait for it but the turn.
func TestAnEndedAttemptDoesNotFailTheOthers(t *testing.T) {
	asked, end := make(chan struct{}), make(chan struct{})
	silent := func(io.Writer, *http.Request, []byte) { close(asked); <-end }
	r := newRig(t, channeltest.HTTPOptions{Reply: taken}, channeltest.HTTPOptions{Reply: inTurn(silent, reply(200, freshToken))}, patience)
	t.Cleanup(func() { close(end) }) // before the peer's own
	a := attempt(t, r, `{"title":"a"}`)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if o := r.Send(ctx, a); o.Result() != channels.NotSent || o.Phase() != channels.PhaseConnect {
			t.Errorf("the one that ended: %v at %q", o.Result(), o.Phase())
		}
	})
	<-asked
	for range 5 {
		wg.Go(func() {
			if o := r.Send(t.Context(), a); o.Result() != channels.Accepted {
				t.Errorf("one that waited: %v %s", o.Result(), o.Code())
			}
		})
	}
	cancel()
	wg.Wait()
	if n := len(r.token.Arrivals()); n != 2 {
		t.Errorf("%d requests for access tokens", n)
	}
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		code  int
		want  string // in the error; "": none
	}{
		"well":          {`{"name":"projects/p/messages/fake_message_id"}`, 200, ""},
		"not FCM":       {`{}`, 200, "accepted 200"},
		"role":          {googleError(403, "PERMISSION_DENIED", "", "no permission"), 403, "PERMISSION_DENIED: no permission; give the service account the role"},
		"wrong project": {googleError(404, "NOT_FOUND", "", "not found"), 404, "PROJECT_ID"},
	} {
		r := newRig(t, channeltest.HTTPOptions{Reply: reply(c.code, c.reply)}, channeltest.HTTPOptions{}, patience)
		err := r.Probe(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		sent := object(t, r.fcm.Arrivals()[0].Body)
		if len(r.fcm.Arrivals()) != 1 || sent["validate_only"] != true {
			t.Errorf("%s: sent %v", name, sent)
		}
	}
	r := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{Reply: reply(400, `{"error":"invalid_grant"}`)}, patience)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := r.Probe(ctx); err == nil || !strings.Contains(err.Error(), "invalid_grant") || r.fcm.Connections() != 0 {
		t.Errorf("%v", err)
	}
}
