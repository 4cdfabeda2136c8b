package pgtest

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to one statement on its way through a Wire. Each comes as a pair: it did not happen, it did.
type Fault int

const (
	// LoseRequest cuts the connection before the statement reaches the server: it did not happen, and what its
	// transaction did before is rolled back by the time the client learns of it.
	LoseRequest Fault = iota
	// LoseReply lets the server finish the statement (and its implicit commit, where it stands alone), then cuts the
	// connection instead of answering: it did happen, the client cannot know.
	LoseReply
	// HoldRequest keeps the statement from the server until Hit.Release; never released it is a black hole.
	HoldRequest
	// HoldReply lets the server finish the statement and keeps the answer until Hit.Release; never released it is a
	// black hole after the fact.
	HoldReply
)

// Wire is a TCP proxy in front of a PostgreSQL server that reads along. Its methods may be called concurrently.
type Wire struct {
	target string
	url    string
	listen net.Listener
	quit   chan struct{} // closed when the test ends: every held message gives up

	mu      sync.Mutex
	closed  bool
	refuses bool
	hits    []*Hit
	conns   map[*conn]struct{}
	pumps   sync.WaitGroup
}

// Proxy puts a Wire in front of the server that url names. Connect to Wire.URL. It ends with the test.
func Proxy(t testing.TB, serverURL string) *Wire {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	w := &Wire{target: u.Host, listen: l, quit: make(chan struct{}), conns: map[*conn]struct{}{}}
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // it has to read along
	u.RawQuery = q.Encode()
	w.url = u.String()
	w.pumps.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

// URL is the server's, through the proxy.
func (w *Wire) URL() string { return w.url }

// Arm sets a fault for the next statement whose text contains marker (any case), on whichever connection. A comment in
// the statement makes a good marker. Prepared statements are known by the text they were prepared with; preparing one
// triggers nothing. A COMMIT that the client sends by itself is the statement "commit". Each Arm triggers once.
func (w *Wire) Arm(fault Fault, marker string) *Hit { return w.ArmAfter(fault, marker, "") }

// ArmAfter is Arm for a statement on a connection that has sent another one, containing earlier, since it last began a
// transaction: ArmAfter(LoseReply, "commit", "name: claim") loses the reply to the commit of a claim.
func (w *Wire) ArmAfter(fault Fault, marker, earlier string) *Hit {
	h := &Hit{fault: fault, marker: marker, earlier: earlier, done: make(chan struct{}), release: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hits = append(w.hits, h)
	return h
}

// Cut breaks every connection at once, in both directions.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.cut()
	}
}

// Refuse(true) breaks every connection and every new one, as a server that is down; Refuse(false) ends that.
func (w *Wire) Refuse(refuse bool) {
	w.mu.Lock()
	w.refuses = refuse
	w.mu.Unlock()
	if refuse {
		w.Cut()
	}
}

// Hit is one armed fault.
type Hit struct {
	fault           Fault
	marker, earlier string
	taken           bool // under the Wire's lock
	failed          bool // written before done is closed
	done            chan struct{}
	release         chan struct{}
	once            sync.Once
}

// Done is closed when the fault has taken effect: the request was stopped, or the statement was finished by the server
// and its answer stopped.
func (h *Hit) Done() <-chan struct{} { return h.done }

// Wait waits for Done, and fails the test when that does not come, or when the server answered the statement with an
// error (so that it did not happen after all).
func (h *Hit) Wait(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	select {
	case <-h.done:
	case <-ctx.Done():
		t.Fatalf("pgtest: no statement with %q came by", h.marker)
	}
	if h.failed {
		t.Fatalf("pgtest: the server answered the statement with %q by an error", h.marker)
	}
}

// Release lets a held message go on. Safe to call twice.
func (h *Hit) Release() { h.once.Do(func() { close(h.release) }) }

// take finds the fault for a statement, if one is armed.
func (w *Wire) take(matches func(marker, earlier string) bool) *Hit {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hits {
		if !h.taken && matches(h.marker, h.earlier) {
			h.taken = true
			return h
		}
	}
	return nil
}

func (w *Wire) accept() {
	for {
		client, err := w.listen.Accept()
		if err != nil {
			return // closed
		}
		w.serve(client)
	}
}

// serve starts carrying for a client, or refuses it.
func (w *Wire) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = client.Close()
		return
	}
	c := newConn(w, client, server)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses || w.closed {
		c.cut()
		return
	}
	w.conns[c] = struct{}{}
	var both sync.WaitGroup
	both.Go(c.requests)
	both.Go(c.replies)
	w.pumps.Go(func() {
		both.Wait()
		c.cut()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, c)
	})
}

func (w *Wire) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.quit)
	_ = w.listen.Close() // only ever fails when closed already
	w.Cut()
	w.pumps.Wait()
}
