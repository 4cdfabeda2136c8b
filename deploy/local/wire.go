package local

import (
	"errors"
	"net"
	"net/url"
	"sync"
)

// WireFault is what happens to one statement on its way through a Wire. Each comes as a pair: it did not happen, it did.
type WireFault int

const (
	// LoseStatement cuts the connection before the statement reaches the server: it did not happen, and what its
	// transaction did before is rolled back by the time the client learns of it.
	LoseStatement WireFault = iota
	// LoseAnswer lets the server finish the statement (and its implicit commit, where it stands alone), then cuts the
	// connection instead of answering: it did happen, the client cannot know.
	LoseAnswer
	// HoldStatement keeps the statement from the server until WireHit.Release; never released it is a black hole.
	HoldStatement
	// HoldAnswer lets the server finish the statement and keeps the answer until WireHit.Release; never released it is a
	// black hole after the fact.
	HoldAnswer
)

// Wire is a TCP proxy in front of a PostgreSQL server that reads along. Its methods may be called concurrently.
type Wire struct {
	target string
	url    string
	listen net.Listener
	quit   chan struct{} // closed at the end: every held message gives up

	mu      sync.Mutex
	closed  bool
	refuses bool
	hits    []*WireHit
	conns   map[*conn]struct{}
	pumps   sync.WaitGroup
}

// StartWire puts a Wire in front of the server that url names. Connect to Wire.URL.
func StartWire(serverURL string) (*Wire, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, errors.New("the server's URL does not parse") // the parser's own error quotes it, password included
	}
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return nil, err
	}
	w := &Wire{target: u.Host, listen: l, quit: make(chan struct{}), conns: map[*conn]struct{}{}}
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // it has to read along
	u.RawQuery = q.Encode()
	w.url = u.String()
	w.pumps.Go(w.accept)
	return w, nil
}

// URL is the server's, through the proxy.
func (w *Wire) URL() string { return w.url }

// Addr is host and port of the proxy.
func (w *Wire) Addr() string { return w.listen.Addr().String() }

// Arm sets a fault for the next statement whose text contains marker (any case), on whichever connection. A comment in
// the statement makes a good marker. Prepared statements are known by the text they were prepared with; preparing one
// triggers nothing. A COMMIT that the client sends by itself is the statement "commit". Each Arm triggers once.
func (w *Wire) Arm(fault WireFault, marker string) *WireHit { return w.ArmAfter(fault, marker, "") }

// ArmAfter is Arm for a statement on a connection that has sent another one, containing earlier, since it last began a
// transaction: ArmAfter(LoseAnswer, "commit", "name: claim") loses the reply to the commit of a claim.
func (w *Wire) ArmAfter(fault WireFault, marker, earlier string) *WireHit {
	h := &WireHit{fault: fault, marker: marker, earlier: earlier, done: make(chan struct{}), release: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hits = append(w.hits, h)
	return h
}

// Disarm takes back every fault that no statement has met.
func (w *Wire) Disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hits {
		h.taken = true
	}
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

// WireHit is one armed fault.
type WireHit struct {
	fault           WireFault
	marker, earlier string
	taken           bool // under the Wire's lock
	failed          bool // written before done is closed
	done            chan struct{}
	release         chan struct{}
	once            sync.Once
}

// Done is closed when the fault has taken effect: the request was stopped, or the statement was finished by the server
// and its answer stopped.
func (h *WireHit) Done() <-chan struct{} { return h.done }

// Failed reports whether the server answered the statement with an error, so that it did not happen after all. It may be
// asked after Done.
func (h *WireHit) Failed() bool { return h.failed }

// Release lets a held message go on. Safe to call twice.
func (h *WireHit) Release() { h.once.Do(func() { close(h.release) }) }

// take finds the fault for a statement, if one is armed.
func (w *Wire) take(matches func(marker, earlier string) bool) *WireHit {
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

// Close ends every connection and waits until that is done. Once only.
func (w *Wire) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.quit)
	_ = w.listen.Close() // only ever fails when closed already
	w.Cut()
	w.pumps.Wait()
}
