package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// hookPeer is a webhook receiver. A keyed one drops repeats of an Idempotency-Key for as long as the window, counted from the key's
// first use, and forgets it then.
type hookPeer struct {
	p       *peers
	channel string
	url     string
	window  time.Duration // 0: it knows no keys
	server  *http.Server
	serving sync.WaitGroup

	mu   sync.Mutex
	keys map[string]*remembered
}

// remembered is a key that was used.
type remembered struct {
	first  time.Time
	body   string
	inside int  // calls with it that are being handled
	done   bool // one of them was applied
}

func newHookPeer(p *peers, channel string) (*hookPeer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hookPeer{p: p, channel: channel, url: "http://" + l.Addr().String() + "/", keys: map[string]*remembered{}}
	if channel == keyedChannel {
		h.window = p.manners.window
	}
	h.server = newServer(h)
	h.serving.Go(func() { _ = h.server.Serve(l) }) // ends when closed
	return h, nil
}

// newServer hears nothing of the connections that break: they are broken on purpose.
func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
}

func (h *hookPeer) close() error {
	err := h.server.Close()
	h.serving.Wait()
	return err
}

// ServeHTTP takes one call.
func (h *hookPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	c := &httpCall{p: h.p, w: w, to: name, fate: h.p.fate(h.channel, name)}
	c.effect = effect{channel: h.channel, to: hash([]byte(h.url + name)), begun: time.Now(), mishap: c.fate, key: r.Header.Get("Idempotency-Key")}
	c.vague = func(status int) { http.Error(w, "something broke about "+name, status) }
	if c.effect.key == "" {
		c.effect.key = r.Header.Get("Webhook-Id")
	}
	if !c.heard() || !c.read(r) {
		return
	}
	if strings.HasSuffix(name, goneMark) {
		c.refuse(http.StatusGone, "nobody lives at "+r.URL.Path)
		return
	}
	if h.window == 0 {
		c.serve(func(e *effect) { e.applied = true })
		return
	}
	known, busy := h.enter(c.effect.key, c.effect.body, c.effect.begun)
	defer h.leave(known)
	switch {
	case busy:
		c.later(http.StatusConflict, "the same key is being handled")
	case known.body != c.effect.body:
		c.effect.mismatch = true
		c.refuse(http.StatusUnprocessableEntity, "the key came with another body")
	default:
		c.serve(func(e *effect) { h.apply(known, e) })
	}
}

// enter looks the key up; busy says that another call with it is being handled.
func (h *hookPeer) enter(key, body string, now time.Time) (known *remembered, busy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known = h.keys[key]
	if known == nil || known.inside == 0 && now.After(known.first.Add(h.window)) {
		known = &remembered{first: now, body: body}
		h.keys[key] = known
	}
	known.inside++
	return known, known.inside > 1
}

func (h *hookPeer) leave(known *remembered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known.inside--
}

// apply has the call take effect, unless one with its key had.
func (h *hookPeer) apply(known *remembered, e *effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.applied, e.repeated = !known.done, known.done
	known.done = true
}

// httpCall is one request to a provider.
type httpCall struct {
	p      *peers
	w      http.ResponseWriter
	to     string
	fate   mishap
	effect effect
	ok     string           // body of the answer to what was applied
	vague  func(status int) // answers what says nothing
}

// heard reports whether the call is taken up at all; if not it is over.
func (c *httpCall) heard() bool {
	switch c.fate {
	case halfOpen:
		c.count()
		c.p.holdLate(c.to)
	case cutUnread: // whether it was written is the sender's to know; nothing of it was taken
		c.count()
	default:
		return true
	}
	c.effect.unread = true
	c.enter(answerNone)
	panic(http.ErrAbortHandler)
}

// read reads the body.
func (c *httpCall) read(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false // the sender broke off: nothing happened
	}
	c.effect.body = hash(body)
	c.effect.of, c.effect.variant, _ = readMark(body)
	return true
}

// serve does what its fate says; apply has the call take effect.
func (c *httpCall) serve(apply func(*effect)) {
	switch c.fate {
	case throttled:
		c.count()
		c.w.Header().Set("Retry-After", "1")
		c.later(http.StatusTooManyRequests, "too many calls for "+c.to)
		return
	case vagueUndone:
		c.count()
		c.enter(answerVague)
		c.vague(http.StatusServiceUnavailable)
		return
	case cutBefore:
		c.count()
		c.enter(answerNone)
		panic(http.ErrAbortHandler)
	case slowly:
		c.p.holdSlow(c.to)
	case lateSuccess:
		c.p.holdLate(c.to)
	}
	c.p.work(c.to)
	apply(&c.effect)
	if c.fate != "" {
		c.count()
	}
	c.reply()
}

// reply answers what was applied.
func (c *httpCall) reply() {
	switch c.fate {
	case vagueDone:
		c.enter(answerVague)
		c.vague(http.StatusInternalServerError)
	case replyLost:
		c.enter(answerNone)
		panic(http.ErrAbortHandler)
	case replyHalf:
		c.enter(answerNone)
		c.say("HTTP/1.1 2")
	case replyGarbage:
		c.enter(answerNone)
		c.say("250 2.0.0 queued as 8841\r\n\r\n")
	case bodyCut:
		c.enter(answerAccepted)
		c.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n{\"name\":")
	case wrongType:
		c.enter(answerAccepted)
		c.say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<p>welcome</p>\n")
	case lateSuccess:
		c.enter(answerLate)
		c.accept()
	default:
		c.enter(answerAccepted)
		c.accept()
	}
}

func (c *httpCall) accept() {
	if c.ok != "" {
		c.w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(c.w, c.ok) // the sender may be gone
	}
}

// say writes these bytes in the place of an answer, and hangs up.
func (c *httpCall) say(words string) {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = fmt.Fprint(conn, words) // the sender may be gone
	_ = conn.Close()
}

func (c *httpCall) refuse(status int, text string) {
	c.enter(answerRefused)
	http.Error(c.w, text, status)
}

func (c *httpCall) later(status int, text string) {
	c.enter(answerLater)
	http.Error(c.w, text, status)
}

// enter puts the call into the ledger. It does so before the answer leaves: who sees the answer finds the entry.
func (c *httpCall) enter(a answer) {
	c.effect.answer, c.effect.at = a, time.Now()
	c.p.ledger.enter(c.effect)
}

func (c *httpCall) count() { c.p.ledger.count(c.fate) }
