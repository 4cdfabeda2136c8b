package channels

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// HTTPOptions says how an HTTPEngine reaches its peers.
type HTTPOptions struct {
	// Timeout bounds one Do, from resolving the name to the last byte of the reply that is read. Required.
	Timeout time.Duration
	// AllowPrivate lists the prefixes in which every address and port may be connected to, in plain text too. Everywhere
	// else only public addresses, ports 443 and 8443 and TLS are allowed, judged by the address that is really dialled.
	AllowPrivate []netip.Prefix
	// IdleTimeout is how long a connection is kept for the next exchange; 0: each exchange has its own connection, so that
	// none can die of a connection that the peer was just closing.
	IdleTimeout time.Duration
	// MaxReply bounds how much of a reply's body is read, in bytes; 0: 64 KiB.
	MaxReply int64
	// RootCAs are trusted in place of the system's, if set.
	RootCAs *x509.CertPool
}

// publicPorts are the ports that may be dialled outside HTTPOptions.AllowPrivate.
var publicPorts = []uint16{443, 8443}

const (
	maxReplyDefault = 64 << 10
	maxReplyHead    = 64 << 10
	maxRequestHead  = 16 << 10 // of the write buffer: a request's head leaves in one piece
)

// HTTPEngine makes HTTP/1.1 exchanges for adapters and says how far each one came. One Do is at most one request on the
// wire: nothing is resent, no redirect is followed, no proxy is taken from the environment, no reply unpacked.
//
// It speaks HTTP/1.1 alone, on purpose: an exchange has its connection to itself, so that what was written for it can be
// counted. Under HTTP/2 net/http says neither by type nor by hook whether a stream was refused unprocessed.
// Safe for concurrent use.
type HTTPEngine struct {
	timeout  time.Duration
	maxReply int64
	plain    *http.Transport // for http: dials inside AllowPrivate alone
	secure   *http.Transport
}

// NewHTTPEngine returns an engine. Close it when it is no longer used.
func NewHTTPEngine(o HTTPOptions) (*HTTPEngine, error) {
	if o.Timeout <= 0 {
		return nil, errors.New("the timeout must be positive (TIMEOUT)")
	}
	if o.MaxReply == 0 {
		o.MaxReply = maxReplyDefault
	}
	g := newGuard(o.AllowPrivate)
	return &HTTPEngine{
		timeout: o.Timeout, maxReply: o.MaxReply,
		plain:  o.transport(g.private),
		secure: o.transport(g.any),
	}, nil
}

func (o HTTPOptions) transport(check addressCheck) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy would be dialled in place of the address that is checked
		DialContext:            dialer(check, o.Timeout),
		Protocols:              protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    o.Timeout,
		DisableCompression:     true, // a small reply cannot unpack to a large one
		DisableKeepAlives:      o.IdleTimeout == 0,
		IdleConnTimeout:        o.IdleTimeout,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    32,
		MaxResponseHeaderBytes: maxReplyHead,
		WriteBufferSize:        maxRequestHead,
	}
}

// Close closes idle connections; exchanges that are under way end by themselves.
func (e *HTTPEngine) Close() error {
	e.plain.CloseIdleConnections()
	e.secure.CloseIdleConnections()
	return nil
}

// HTTPRequest is what one exchange sends.
type HTTPRequest struct {
	Method  string
	URL     string
	Header  http.Header // as given, canonical names
	Body    []byte      // required for every method but GET
	Secrets []string    // kept out of the reply's excerpt, as all parts of the URL are
}

// Do makes one exchange. It never panics on purpose and never returns an error: an Exchange without a status says why there
// was no reply. A ctx that is done when the request would be written writes nothing.
func (e *HTTPEngine) Do(ctx context.Context, r HTTPRequest) Exchange {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	rec := &recorder{ctx: ctx}
	req, err := r.build(rec)
	if err != nil {
		return Exchange{Code: HTTPInvalid}
	}
	// RoundTrip rather than a Client: that one follows redirects and wraps errors with the URL.
	reply, err := e.transport(req.URL).RoundTrip(req)
	if err != nil {
		return rec.failed(err)
	}
	defer func() { _ = reply.Body.Close() }() // what is left unread is of no interest
	return readReply(reply, e.maxReply, append(urlParts(req.URL), r.Secrets...))
}

func (e *HTTPEngine) transport(u *url.URL) *http.Transport {
	if u.Scheme == "http" {
		return e.plain
	}
	return e.secure
}

var errNoBody = errors.New("the request has no body")

func (r HTTPRequest) build(rec *recorder) (*http.Request, error) {
	var body io.Reader
	if r.Method != http.MethodGet {
		// net/http resends bodiless requests that carry an Idempotency-Key
		if len(r.Body) == 0 {
			return nil, errNoBody
		}
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(rec.watch(), r.Method, r.URL, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	// net/http resends a POST with an Idempotency-Key when a reused connection dies, unless it cannot get the body again
	// (net/http, Request.isReplayable; providers.md section 0.5).
	req.GetBody = nil
	return req, nil
}
