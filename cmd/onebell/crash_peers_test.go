package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"
)

// stage is a step of an exchange at which a peer calls its hook. The hook may block; when it returns false the peer hangs up.
type stage string

const (
	stageConnected stage = "connected" // nothing was said
	stageOffered   stage = "offered"   // a mail's recipient was taken, its text not yet
	stageTaken     stage = "taken"     // the effect is on the peer's books, the reply is not sent
	stageReplied   stage = "replied"   // the reply is sent
)

// books is what a peer took, in order.
type books struct {
	mu          sync.Mutex
	entries     []entryOfPeer
	connections int
	closed      bool
	hook        func(stage) bool
}

type entryOfPeer struct{ key, body string }

func (b *books) at(s stage) bool {
	b.mu.Lock()
	if s == stageConnected {
		b.connections++
	}
	hook, closed := b.hook, b.closed
	b.mu.Unlock()
	return !closed && (hook == nil || hook(s))
}

func (b *books) setHook(hook func(stage) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook = hook
}

func (b *books) enter(key, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, entryOfPeer{key, body})
}

func (b *books) all() []entryOfPeer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]entryOfPeer(nil), b.entries...)
}

// connected returns how many connections came.
func (b *books) connected() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.connections
}

// applied counts the entries as a receiver does that drops repeats of a key.
func (b *books) applied() int {
	keys := map[string]bool{}
	for _, e := range b.all() {
		keys[e.key] = true
	}
	return len(keys)
}

// mailPeer is a mail server on a socket that can be held at any stage.
type mailPeer struct {
	books
	ln net.Listener
}

func newMailPeer(t testing.TB) *mailPeer {
	t.Helper()
	p := &mailPeer{ln: listen(t)}
	t.Cleanup(p.end)
	go func() {
		for {
			c, err := p.ln.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func (p *mailPeer) addr() string { return p.ln.Addr().String() }

func (p *mailPeer) end() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.ln.Close()
}

func (p *mailPeer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	if !p.at(stageConnected) {
		return
	}
	in := textproto.NewReader(bufio.NewReader(c))
	say := func(line string) bool { _, err := io.WriteString(c, line+"\r\n"); return err == nil }
	for ok := say("220 peer"); ok; {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " ?")[0]); verb {
		case "EHLO":
			ok = say("250 peer")
		case "MAIL", "RSET", "NOOP":
			ok = say("250 2.0.0 fine")
		case "RCPT":
			ok = p.at(stageOffered) && say("250 2.1.5 fine")
		case "DATA":
			ok = say("354 go on") && p.take(in) && say("250 2.0.0 queued as Q1") && p.at(stageReplied)
		default: // QUIT
			say("221 bye")
			return
		}
	}
}

func (p *mailPeer) take(in *textproto.Reader) bool {
	body, err := in.ReadDotBytes()
	if err != nil {
		return false // no final dot: no mail
	}
	header, _, _ := strings.Cut(string(body), "\n\n")
	_, id, _ := strings.Cut(strings.ToLower(header), "message-id:")
	id, _, _ = strings.Cut(id, "\n")
	p.enter(strings.TrimSpace(id), string(body))
	return p.at(stageTaken)
}

// hookPeer is a webhook receiver that can be held at any stage. It enters every request it has read; applied counts different keys.
type hookPeer struct {
	books
	url string
}

func newHookPeer(t testing.TB) *hookPeer {
	t.Helper()
	p := &hookPeer{}
	p.url = serveHTTP(t, p, &p.books) + "/hook"
	return p
}

func serveHTTP(t testing.TB, h http.Handler, b *books) (url string) {
	t.Helper()
	ln := listen(t)
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(hookListener{ln, b}) }()
	return "http://" + ln.Addr().String()
}

// hookListener calls the hook before anything of a connection is read.
type hookListener struct {
	net.Listener
	p *books
}

func (l hookListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.p.at(stageConnected) {
			return c, err
		}
		_ = c.Close()
	}
}

func (p *hookPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.take(w, r.Header.Get("Idempotency-Key"), string(body), "{}")
}

// take enters a request and answers it.
func (b *books) take(w http.ResponseWriter, key, body, reply string) {
	b.enter(key, body)
	if !b.at(stageTaken) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, reply)
	_ = http.NewResponseController(w).Flush()
	b.at(stageReplied)
}

// pushPeer is a push service, as Firebase Cloud Messaging speaks, that can be held at any stage but for its access tokens. applied counts
// what devices show: one for each device and tag.
type pushPeer struct {
	books
	url, credentials string
}

func newPushPeer(t testing.TB) *pushPeer {
	t.Helper()
	p := &pushPeer{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"pass","token_type":"Bearer","expires_in":3600}`)
	})
	mux.HandleFunc("POST /v1/projects/my-app-1a2b3/messages:send", p.send)
	p.url = serveHTTP(t, mux, &p.books)
	p.credentials = firebaseKey(t, p.url+"/token")
	return p
}

func (p *pushPeer) send(w http.ResponseWriter, r *http.Request) {
	var m struct {
		Message struct {
			Token   string
			Android struct{ Notification struct{ Tag string } }
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.take(w, m.Message.Token+"/"+m.Message.Android.Notification.Tag, string(body), `{"name":"projects/my-app-1a2b3/messages/1"}`)
}
