package dispatch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/webhook"
	"github.com/onebell/onebell/intents"
)

// receiver takes webhooks, loses the first replies, and says what it knows of a key.
type receiver struct {
	server *httptest.Server
	says   string // to a look-up of a key whose reply was lost

	mu    sync.Mutex
	lose  int // replies still to be lost
	calls map[string][]string
	looks int
}

func newReceiver(t *testing.T, lose int, says string) *receiver {
	v := &receiver{lose: lose, says: says, calls: map[string][]string{}}
	v.server = httptest.NewServer(v)
	t.Cleanup(v.server.Close)
	return v
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	if q.Method == http.MethodGet {
		v.looks++
		status := v.says
		if status == "cannot tell, then accepted" {
			status = map[bool]string{true: "accepted", false: "pending"}[v.looks > 1]
		}
		fmt.Fprintf(w, `{"status":%q,"id":"n-%d"}`, status, len(v.calls))
		return
	}
	key := q.Header.Get("Webhook-Id")
	v.calls[key] = append(v.calls[key], string(body))
	if v.lose > 0 {
		v.lose--
		panic(http.ErrAbortHandler) // the connection ends without a reply
	}
	w.WriteHeader(http.StatusNoContent)
}

// heard returns the bodies of all calls by key, and how often it was asked.
func (v *receiver) heard() (calls map[string][]string, looks int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := map[string][]string{}
	for k, b := range v.calls {
		out[k] = append([]string(nil), b...)
	}
	return out, v.looks
}

// hooks is a webhook channel to it, whose receivers do not deduplicate and can be asked.
func (v *receiver) hooks(t *testing.T, attempts int) channels.Entry {
	t.Helper()
	c, err := webhook.New(webhook.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, LookupURL: v.server.URL + "/look/{key}", Timeout: unhurried,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return channels.Entry{Name: "hooks", Type: "webhook", Channel: c, Settings: channels.Settings{Concurrency: 4, MaxAttempts: attempts, MaxAge: time.Hour}}
}

// A reply is lost where a repeat would be seen, and the receiver is asked what became of it.
func TestLookUpSettlesWhatNobodyKnows(t *testing.T) {
	for name, test := range map[string]struct {
		lose, attempts int
		says           string
		want           intents.State
		calls          int
		evidence       string
	}{
		"it has it":          {1, 5, "accepted", intents.Succeeded, 1, "accepted"},
		"it tells later":     {1, 5, "cannot tell, then accepted", intents.Succeeded, 1, "accepted"},
		"it never got it":    {1, 5, "not-found", intents.Succeeded, 2, "not-sent"},
		"and never gets it":  {9, 2, "not-found", intents.UnknownState, 2, "not-sent not-sent"},
		"it can never tell":  {1, 5, "who knows", intents.UnknownState, 1, ""},
		"no attempt is left": {1, 1, "not-found", intents.UnknownState, 1, "not-sent"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := newRig(t)
			v := newReceiver(t, test.lose, test.says)
			r.dispatcher(v.hooks(t, test.attempts))
			second := r.start(r.config(r.store, v.hooks(t, test.attempts))) // whoever asks
			r.submit("shop", "hooks", ask("note:1").with("recipient", v.server.URL+"/in").with("content",
				map[string]any{"type": "note", "data": map[string]any{"n": 1}}))
			found := func() string {
				var s string
				if err := r.db.QueryRow(bg, `select coalesce(string_agg(result, ' ' order by id), '') from evidence where source = 'look-up'`).Scan(&s); err != nil {
					t.Error(err)
				}
				return s
			}
			r.until("asked and settled", func() bool {
				i, _ := r.find(identity("shop", "hooks", "note:1"))
				_, looks := v.heard()
				return i.State == test.want && found() == test.evidence && (test.want == intents.Succeeded || looks > len(strings.Fields(test.evidence))+1)
			})
			r.drain(second)
			calls, looks := v.heard()
			for key, bodies := range calls {
				if len(bodies) != test.calls || bodies[0] != bodies[len(bodies)-1] {
					t.Errorf("%s was called %d times, want %d: %v", key, len(bodies), test.calls, bodies)
				}
			}
			if i, _ := r.find(identity("shop", "hooks", "note:1")); len(calls) != 1 || i.State != test.want || found() != test.evidence ||
				i.PossibleDuplicates != 0 || (i.State == intents.Succeeded && i.Doubt) {
				t.Errorf("%d keys, %d look-ups, evidence %q; %+v", len(calls), looks, found(), i)
			}
		})
	}
}
