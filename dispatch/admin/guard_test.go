package admin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// TestEveryRouteAsksForItsToken: who may ask for what. "other" holds a token, but for another caller's intents.
func TestEveryRouteAsksForItsToken(t *testing.T) {
	h := newHouse(t)
	id := h.admit(intenttest.Ask("receipt:1", 0))[0]
	people := []string{"", "not-a-token", tokenViewer, tokenOperator, tokenAdmin, tokenShop, tokenOther}
	everybody, holders := []int{200, 200, 200, 200, 200, 200, 200}, []int{401, 401, 200, 200, 200, 200, 200}
	for path, want := range map[string][]int{
		"/v1/intents":                holders,
		"/v1/intents/" + id.String(): {401, 401, 200, 200, 200, 200, 404},
		"/v1/refusals":               holders,
		"/v1/channels":               holders,
		"/v1/stats":                  holders,
		"/openapi.json":              holders,
		"/metrics":                   holders, // the house listens beyond loopback
		"/healthz":                   everybody,
		"/readyz":                    everybody,
		"/v1/nothing":                {401, 401, 404, 404, 404, 404, 404},
		"/":                          {401, 401, 404, 404, 404, 404, 404},
	} {
		for i, token := range people {
			a := h.do(path, token)
			if a.status != want[i] {
				t.Errorf("GET %s as %q: %d, want %d", path, token, a.status, want[i])
			}
			if a.status == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("GET %s as %q: a 401 without WWW-Authenticate", path, token)
			}
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		a := h.do("/v1/intents/"+id.String(), tokenAdmin, func(r *http.Request) { r.Method = method })
		if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") == "" {
			t.Errorf("%s: %d, want 405 with Allow", method, a.status)
		}
		if a := h.do("/v1/intents", "", func(r *http.Request) { r.Method = method }); a.status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d, want 401", method, a.status)
		}
	}
}

func TestUnauthorizedAnswersDoNotDifferAndAreCounted(t *testing.T) {
	h := newHouse(t)
	sameID := func(r *http.Request) { r.Header.Set("X-Request-Id", "same") }
	var bodies []string
	for name, change := range map[string]func(*http.Request){
		"no header":    func(*http.Request) {},
		"wrong token":  func(r *http.Request) { r.Header.Set("Authorization", "Bearer nobody") },
		"wrong scheme": func(r *http.Request) { r.Header.Set("Authorization", "Basic "+tokenAdmin) },
		"empty token":  func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"the hash":     func(r *http.Request) { r.Header.Set("Authorization", fmt.Sprintf("Bearer %x", hash(tokenAdmin))) },
		"two tokens":   func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenAdmin+" "+tokenViewer) },
	} {
		a := h.do("/v1/intents", "", change, sameID)
		if a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", name, a.status)
		}
		bodies = append(bodies, string(a.body))
	}
	for _, b := range bodies {
		if b != bodies[0] {
			t.Errorf("two 401s differ: %s and %s", bodies[0], b)
		}
	}
	want := `
# HELP onebell_admin_auth_failures_total Requests turned away, by reason: no-token, bad-token, foreign-host.
# TYPE onebell_admin_auth_failures_total counter
onebell_admin_auth_failures_total{reason="bad-token"} 3
onebell_admin_auth_failures_total{reason="no-token"} 3
`
	if err := testutil.GatherAndCompare(h.metrics, strings.NewReader(want), "onebell_admin_auth_failures_total"); err != nil {
		t.Error(err)
	}
}

func TestX2TokenOfOneCallerSeesNothingOfAnother(t *testing.T) {
	h := newHouse(t)
	h.admit(intenttest.Ask("receipt:1", 0), intenttest.Ask("receipt:1", 0, of("other")))
	if err := h.Refuse(t.Context(), []intents.Refusal{
		{ID: uuid.Must(uuid.NewV7()), Verdict: intents.Refused, Code: "c", Caller: "shop"}, {ID: uuid.Must(uuid.NewV7()), Verdict: intents.Refused, Code: "c"},
	}); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]map[string]int{
		tokenOperator: {"": 2, "caller=shop": 1, "caller=other": 1, "key=receipt:1": 2, "state=pending": 2, "recipient=ada%40example.org": 2, "caller=nobody": 0},
		tokenShop:     {"": 1, "caller=shop": 1, "caller=other": 0, "key=receipt:1": 1, "state=pending": 1, "recipient=ada%40example.org": 1, "caller=nobody": 0},
	} {
		for query, n := range want {
			list := read[admin.IntentPage](h, "/v1/intents?"+query, token).Intents
			if len(list) != n {
				t.Errorf("%s, %q: %d intents, want %d", token, query, len(list), n)
			}
		}
	}
	for token, n := range map[string]int{tokenOperator: 2, tokenShop: 1, tokenOther: 0} {
		if got := len(read[admin.RefusalPage](h, "/v1/refusals", token).Refusals); got != n {
			t.Errorf("%s: %d refusals, want %d", token, got, n)
		}
	}
}

func TestViewersSeeMaskedRecipients(t *testing.T) {
	h := newHouse(t)
	id := h.admit(intenttest.Ask("receipt:1", 0, to("ada.lovelace@example.org")))[0]
	for token, want := range map[string]string{tokenViewer: "a***@e***.org", tokenOperator: "ada.lovelace@example.org", tokenAdmin: "ada.lovelace@example.org"} {
		for _, path := range []string{"/v1/intents", "/v1/intents/" + id.String(), "/v1/intents?recipient=ada.lovelace%40example.org"} {
			a := h.get(path, token)
			if a.status != 200 || !strings.Contains(string(a.body), `"recipient":"`+want+`"`) || strings.Contains(string(a.body), "lovelace") != strings.Contains(want, "lovelace") {
				t.Errorf("GET %s as %s: %s, want the recipient as %s", path, token, a.body, want)
			}
		}
	}
}

func TestX4HostileTextIsInert(t *testing.T) {
	h := newHouse(t)
	const html, ansi = `<img src=x onerror=alert(1)>`, "\x1b[31mred\x1b]0;title\x07"
	h.admit(intenttest.Ask("receipt:1", 0, to(html), func(a *intents.Admission) { a.Labels = map[string]string{html: ansi} }))
	if err := h.Refuse(t.Context(), []intents.Refusal{{ID: uuid.Must(uuid.NewV7()), Verdict: intents.Refused, Code: "c", Message: html, Key: html, Subject: ansi}}); err != nil {
		t.Fatal(err)
	}
	id := read[admin.IntentPage](h, "/v1/intents", tokenAdmin).Intents[0].ID
	for _, path := range []string{"/v1/intents", "/v1/intents/" + id, "/v1/refusals", "/v1/intents?" + "x%3Cimg%3E=1", "/v1/%3Cimg%20src=x%3E"} {
		a := h.do(path, tokenAdmin)
		if strings.ContainsAny(string(a.body), "\x1b\x07") || strings.Contains(string(a.body), "<img") {
			t.Errorf("GET %s: markup or a terminal's control character as it is: %s", path, a.body)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("GET %s: %s is %q, want %q", path, name, got, want)
			}
		}
		if !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(a.header.Get("Content-Type"), "json") {
			t.Errorf("GET %s: %v", path, a.header)
		}
	}
}

func TestLoopbackWithoutTokensAnswersLoopbackNamesOnly(t *testing.T) {
	h := newHouse(t, func(o *admin.Options) { o.Addr, o.Tokens = "127.0.0.1:8080", nil })
	for host, want := range map[string]int{
		"127.0.0.1:8080": 200, "localhost": 200, "[::1]:8080": 200, "LOCALHOST:1": 200,
		"evil.example:8080": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "10.0.0.1:8080": 421,
	} {
		for _, path := range []string{"/v1/intents", "/metrics", "/openapi.json", "/readyz"} {
			if a := h.do(path, "", func(r *http.Request) { r.Host = host }); a.status != want {
				t.Errorf("GET %s for host %s: %d, want %d", path, host, a.status, want)
			}
		}
	}
	with := newHouse(t, func(o *admin.Options) { o.Addr = "127.0.0.1:8080" })
	foreign := func(r *http.Request) { r.Host = "admin.example.org" } // a proxy in front
	for path, c := range map[string]struct {
		token string
		want  int
	}{"/v1/intents": {tokenViewer, 200}, "/metrics": {"", 421}} {
		if a := with.do(path, c.token, foreign); a.status != c.want {
			t.Errorf("loopback with tokens, GET %s for a foreign host: %d, want %d", path, a.status, c.want)
		}
	}
	if a := with.do("/metrics", ""); a.status != 200 {
		t.Errorf("loopback with tokens, /metrics without one: %d, want 200", a.status)
	}
	if a := with.do("/v1/intents", ""); a.status != 401 {
		t.Errorf("loopback with tokens, /v1/intents without one: %d, want 401", a.status)
	}
}

func TestNewRefusesToBeOpenToOtherMachines(t *testing.T) {
	h := newHouse(t)
	o := admin.Options{Addr: ":8080", Ledger: h.Store, Log: slog.New(slog.DiscardHandler)}
	if _, err := admin.New(o); err == nil {
		t.Error("missing options are taken")
	}
	if err := admin.CheckExposure(":8080", nil); !errors.Is(err, admin.ErrExposed) || !strings.Contains(err.Error(), "ONEBELL_ADMIN_TOKENS_FILE") {
		t.Errorf("%v", err)
	}
}

func TestAccessLogHoldsNoRecipientAndNoToken(t *testing.T) {
	h := newHouse(t)
	for _, path := range []string{
		"/v1/intents?recipient=ada.lovelace%40example.org", "/v1/intents/ada.lovelace@example.org", "/ada.lovelace", "/v1/intents?ada.lovelace=1",
		"/v1/intents?limit=x&key=ada.lovelace",
	} {
		for _, token := range []string{tokenViewer, "s3cret-not-a-token", ""} {
			h.do(path, token, func(r *http.Request) {
				r.Header.Set("X-Request-Id", "ada.lovelace@example.org")
				r.Header.Set("Referer", "http://x/ada.lovelace")
			})
		}
	}
	log := h.log.text()
	if lines := strings.Count(log, `"msg":"admin request"`); lines != 5*3+1 { // one was for the OpenAPI document
		t.Errorf("%d lines for %d requests", lines, 5*3+1)
	}
	for _, secret := range []string{"lovelace", "s3cret", tokenViewer} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, `"token":"vera"`) || !strings.Contains(log, `"route":"GET /v1/intents"`) {
		t.Errorf("the log names neither the token's holder nor the route:\n%s", log)
	}
}

// broken is a ledger whose database is gone; without an error it panics.
type broken struct {
	admin.Ledger
	err error
}

func (b broken) ListIntents(context.Context, intents.Filter) (intents.Page, error) {
	if b.err == nil {
		panic("ada.lovelace@example.org")
	}
	return intents.Page{}, b.err
}

func TestFailedReadsSayWhatToDoAndKeepInternalsInTheLog(t *testing.T) {
	h := newHouse(t, func(o *admin.Options) { o.Ledger = broken{o.Ledger, errors.New("dial tcp 10.9.8.7:5432: refused")} })
	p := h.problem("/v1/intents", tokenAdmin, http.StatusServiceUnavailable)
	if strings.Contains(p.Error(), "10.9.8.7") || !strings.Contains(p.Hint, "onebell doctor") {
		t.Errorf("%v", p)
	}
	if !strings.Contains(h.log.text(), "10.9.8.7") || !strings.Contains(h.log.text(), p.RequestID) {
		t.Error("the log does not say what happened under the request id")
	}
	h = newHouse(t, func(o *admin.Options) { o.Ledger = broken{o.Ledger, fmt.Errorf("list: %w", context.DeadlineExceeded)} })
	if p := h.problem("/v1/intents", tokenAdmin, http.StatusServiceUnavailable); !strings.Contains(p.Hint, "Narrow") {
		t.Errorf("a read that took too long: %v", p)
	}
	h = newHouse(t, func(o *admin.Options) { o.Ledger = broken{o.Ledger, nil} })
	p = h.problem("/v1/intents", tokenAdmin, http.StatusInternalServerError)
	if strings.Contains(p.Error(), "lovelace") || strings.Contains(h.log.text(), "lovelace") || !strings.Contains(h.log.text(), "panic in the admin API") {
		t.Errorf("a panic: %v\n%s", p, h.log.text())
	}
	h.get("/v1/channels", tokenAdmin) // the next one is served
}

func TestServerBoundsWhatAClientSends(t *testing.T) {
	h := newHouse(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of headers: %v, %v", res, err)
	}
	s := admin.NewServer(nil, slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 {
		t.Errorf("a time is without bound: %+v", s)
	}
}

// counting is a ledger that lets nobody go before it is told to.
type counting struct {
	admin.Ledger
	entered, leave chan struct{}
	inside, most   *atomic.Int32
}

func (c counting) ChannelStates(context.Context) ([]intents.ChannelState, error) {
	n := c.inside.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	c.entered <- struct{}{}
	<-c.leave
	c.inside.Add(-1)
	return nil, nil
}

func TestFewRequestsReadAtATimeAndHealthAnswersMeanwhile(t *testing.T) {
	const asked, most = 12, 4
	c := counting{entered: make(chan struct{}, asked), leave: make(chan struct{}), inside: new(atomic.Int32), most: new(atomic.Int32)}
	h := newHouse(t, func(o *admin.Options) { c.Ledger, o.Ledger = o.Ledger, c })
	client, err := admin.NewClient(h.url, tokenViewer, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, asked)
	for range asked {
		go func() {
			_, err := client.Channels(t.Context())
			answers <- err
		}()
	}
	for range most {
		<-c.entered
	}
	if a := h.do("/healthz", ""); a.status != http.StatusOK {
		t.Errorf("/healthz while all readers are busy: %d", a.status)
	}
	close(c.leave)
	for range asked {
		if err := <-answers; err != nil {
			t.Errorf("a request that had to wait: %v", err)
		}
	}
	if got := c.most.Load(); got != most {
		t.Errorf("%d requests read at once, want %d", got, most)
	}
}
