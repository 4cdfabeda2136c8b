package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/smtp"
	"strings"
	"testing"
	"time"
)

func startPeers(t *testing.T, m manners) *peers {
	t.Helper()
	p, err := newPeersWith(rand.New(rand.NewPCG(1, 2)), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// post calls a receiver once and says what it answered; 0: nothing that is HTTP.
func post(t *testing.T, p *peers, of identity, key string, v variant) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.recipient(of, false), strings.NewReader(string(p.content(of, v))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	req.GetBody = nil
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body) // may be cut
	return res.StatusCode
}

// What a receiver does and what its ledger says are the same, whatever goes wrong.
func TestReceiversFailAsTold(t *testing.T) {
	t.Parallel()
	want := map[mishap]struct {
		status  int
		applied bool
		answer  answer
	}{
		"":           {200, true, answerAccepted},
		replyLost:    {0, true, answerNone},
		replyHalf:    {0, true, answerNone},
		replyGarbage: {0, true, answerNone},
		lateSuccess:  {200, true, answerLate},
		cutUnread:    {0, false, answerNone},
		cutBefore:    {0, false, answerNone},
		vagueUndone:  {503, false, answerVague},
		vagueDone:    {500, true, answerVague},
		throttled:    {429, false, answerLater},
		slowly:       {200, true, answerAccepted},
		halfOpen:     {0, false, answerNone},
		bodyCut:      {200, true, answerAccepted},
		wrongType:    {200, true, answerAccepted},
	}
	for _, kind := range append(allMishaps(), "") {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := startPeers(t, manners{timeout: 20 * time.Millisecond, window: time.Hour})
			p.trouble(mishaps{keyedChannel: {kind: 1}})
			of := identity{"shop", keyedChannel, "order:1", 0}
			status := post(t, p, of, "k", "a")
			list := p.effects()
			if len(list) != 1 {
				t.Fatalf("%d entries in the ledger, want 1", len(list))
			}
			w, e := want[kind], list[0]
			if status != w.status || e.applied != w.applied || e.answer != w.answer {
				t.Errorf("status %d, applied %t, answer %q; want %d, %t, %q", status, e.applied, e.answer, w.status, w.applied, w.answer)
			}
			if !e.unread && (e.of != of || e.variant != "a" || e.key != "k") {
				t.Errorf("the entry speaks of %v %q with the key %q", e.of, e.variant, e.key)
			}
			if got := p.mishaps()[string(kind)]; kind != "" && got != 1 {
				t.Errorf("counted %d times, want once", got)
			}
		})
	}
}

// A keyed receiver drops a repeat, refuses another body, and forgets when its window is over.
func TestKeyedReceiverRemembersForItsWindow(t *testing.T) {
	t.Parallel()
	of := identity{"shop", keyedChannel, "order:1", 0}
	p := startPeers(t, manners{timeout: time.Second, window: time.Hour})
	for _, c := range []struct {
		variant  variant
		status   int
		repeated bool
	}{{"a", 200, false}, {"a", 200, true}, {"b", 422, false}} {
		if got := post(t, p, of, "k", c.variant); got != c.status {
			t.Errorf("answered %d, want %d", got, c.status)
		}
		list := p.effects()
		if e := list[len(list)-1]; e.repeated != c.repeated || e.mismatch != (c.status == 422) {
			t.Errorf("repeated %t, mismatch %t", e.repeated, e.mismatch)
		}
	}
	if n := applied(p.effects()); n != 1 {
		t.Errorf("applied %d times, want once", n)
	}
	short := startPeers(t, manners{timeout: time.Second, window: time.Nanosecond})
	post(t, short, of, "k", "a")
	post(t, short, of, "k", "a")
	if n := applied(short.effects()); n != 2 {
		t.Errorf("applied %d times when the window was over, want twice", n)
	}
}

// A mail whose reply is lost was taken; one that was refused was not.
func TestMailServerFailsAsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind    mishap
		gone    bool
		fails   bool
		applied int
		answer  answer
	}{
		{"", false, false, 1, answerAccepted},
		{"", true, true, 0, answerRefused},
		{replyLost, false, true, 1, answerNone},
		{replyGarbage, false, true, 1, answerNone},
		{throttled, false, true, 0, answerLater},
		{cutBefore, false, true, 0, answerNone},
	} {
		t.Run(string(c.kind)+string(c.answer), func(t *testing.T) {
			t.Parallel()
			p := startPeers(t, manners{timeout: 20 * time.Millisecond})
			p.trouble(mishaps{mailChannel: {c.kind: 1}})
			of := identity{"shop", mailChannel, "order:1", 0}
			to := p.recipient(of, c.gone)
			text := "Message-Id: <k@example.org>\r\n\r\n" + mark(of, "a") + "\r\n"
			err := smtp.SendMail(p.mail.addr, nil, "shop@example.org", []string{to}, []byte(text))
			if (err != nil) != c.fails {
				t.Errorf("sending ended with %v", err)
			}
			list := p.effects()
			if len(list) != 1 || applied(list) != c.applied || list[0].answer != c.answer {
				t.Fatalf("the ledger has %+v; want %d applied, answer %q", list, c.applied, c.answer)
			}
			if e := list[0]; !e.unread && (e.of != of || e.key != "<k@example.org>") {
				t.Errorf("the entry speaks of %v with the key %q", e.of, e.key)
			}
		})
	}
}

// The same seed is the same trouble, however calls are interleaved.
func TestMishapsFollowTheSeed(t *testing.T) {
	t.Parallel()
	r := evenly(0.5, mailChannel)[mailChannel]
	met := map[mishap]int{}
	for n := range 20_000 {
		first, again := r.draw(7, mailChannel, "ada", n), r.draw(7, mailChannel, "ada", n)
		if first != again {
			t.Fatalf("call %d meets %q and %q", n, first, again)
		}
		met[first]++
	}
	if none := met[""]; none < 9_000 || none > 11_000 {
		t.Errorf("%d of 20000 calls met nothing, want about half", none)
	}
	for _, kind := range allMishaps() {
		if met[kind] < 400 {
			t.Errorf("%q was met %d times of 20000, want about 770", kind, met[kind])
		}
	}
}
