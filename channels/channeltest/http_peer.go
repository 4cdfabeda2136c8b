package channeltest

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// HTTPOptions says how an HTTPPeer behaves.
type HTTPOptions struct {
	Fault Fault
	Skip  int // exchanges that are met without the fault first
	TLS   bool
	// Header is added to every well-formed reply.
	Header http.Header
	// Key reads the effect key from a request; nil: none.
	Key func(http.Header) string
	// Reply, if set, writes the reply of every exchange in place of the fault's own.
	Reply func(w io.Writer, r *http.Request, body []byte)
}

// HTTPPeer is a scripted HTTP/1.1 server on raw TCP, so that it can cut, reset, drip and lie. It listens on the loopback
// address.
type HTTPPeer struct {
	Roots *x509.CertPool // for TLS: what a client must trust

	o    HTTPOptions
	ln   net.Listener
	tls  *tls.Config
	done chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	arrivals []Arrival
	requests []*http.Request
}

// NewHTTPPeer starts a peer that ends with t.
func NewHTTPPeer(t testing.TB, o HTTPOptions) *HTTPPeer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &HTTPPeer{o: o, ln: ln, done: make(chan struct{}), conns: map[net.Conn]bool{}}
	if o.TLS {
		p.tls, p.Roots = selfSigned(t)
	}
	if o.Fault == FaultBomb {
		bomb()
	}
	if o.Fault == FaultDialRefused {
		_ = ln.Close() // the address stays known, nobody listens
	} else {
		p.wg.Go(p.accept)
	}
	t.Cleanup(p.close)
	return p
}

// Addr returns the address as host:port.
func (p *HTTPPeer) Addr() string { return p.ln.Addr().String() }

// URL returns the address of a path, which starts with a slash.
func (p *HTTPPeer) URL(path string) string {
	if p.o.TLS {
		return "https://" + p.Addr() + path
	}
	return "http://" + p.Addr() + path
}

// Arrivals implements Peer. An arrival's recipient is the request's URI.
func (p *HTTPPeer) Arrivals() []Arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Arrival(nil), p.arrivals...)
}

// Requests returns the heads of the arrivals.
func (p *HTTPPeer) Requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.requests...)
}

// Connections implements Peer.
func (p *HTTPPeer) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

func (p *HTTPPeer) close() {
	close(p.done)
	_ = p.ln.Close() // may be closed already
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *HTTPPeer) accept() {
	for {
		c, err := p.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // a client that went before it was accepted
		}
		p.mu.Lock()
		p.accepted++
		p.conns[c] = true
		p.mu.Unlock()
		p.wg.Go(func() {
			defer func() {
				p.mu.Lock()
				delete(p.conns, c)
				p.mu.Unlock()
				_ = c.Close()
			}()
			p.serve(c)
		})
	}
}

// serve meets the exchanges of one connection.
func (p *HTTPPeer) serve(raw net.Conn) {
	w := &wire{Conn: raw, raw: raw, done: p.done}
	switch {
	case p.faulty() && p.o.Fault == FaultHandshake:
		w.write("220 this is no HTTP server\r\n")
		return
	case p.faulty() && p.o.Fault == FaultStall:
		w.untilClientGoes()
		return
	}
	if p.tls != nil {
		tc := tls.Server(raw, p.tls)
		if tc.Handshake() != nil {
			return
		}
		w.Conn = tc
	}
	in := bufio.NewReader(w.Conn)
	for p.exchange(w, in) {
	}
}

// exchange meets one request and reports whether the connection goes on.
func (p *HTTPPeer) exchange(w *wire, in *bufio.Reader) bool {
	faulty := p.faulty()
	if faulty && p.o.Fault == FaultCloseBefore {
		return false
	}
	if _, err := in.Peek(1); err != nil {
		return false
	}
	if faulty && p.o.Fault == FaultCloseMid {
		return false
	}
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	p.record(r, body)
	switch {
	case p.o.Reply != nil:
		p.o.Reply(w, r, body)
		return true
	case faulty && p.o.Fault != FaultNone:
		return p.commit(w, r, body)
	}
	p.ok(w, r, body)
	return true
}

func (p *HTTPPeer) faulty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.arrivals) >= p.o.Skip
}

func (p *HTTPPeer) record(r *http.Request, body []byte) {
	key := ""
	if p.o.Key != nil {
		key = p.o.Key(r.Header)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, Arrival{Key: key, Recipient: r.RequestURI, Body: bytes.Clone(body)})
	p.requests = append(p.requests, r)
}

// selfSigned returns a server's TLS configuration for the loopback address, and the pool that trusts it.
func selfSigned(t testing.TB) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "channeltest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}, pool
}
