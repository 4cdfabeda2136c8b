package channels

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"
)

// recorder keeps how far one exchange came.
type recorder struct {
	ctx context.Context

	mu         sync.Mutex
	looked     bool // a connection was asked for
	handshake  bool // TLS had begun
	conn       *meteredConn
	headDone   bool // the whole head was written, into the buffer at least
	replyBegan bool
}

// watch returns the exchange's context with the recorder's hooks in it. They run on the transport's goroutines.
func (r *recorder) watch() context.Context {
	set := func(flag *bool) {
		r.mu.Lock()
		*flag = true
		r.mu.Unlock()
	}
	return httptrace.WithClientTrace(r.ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { set(&r.looked) },
		TLSHandshakeStart:    func() { set(&r.handshake) },
		GotConn:              r.gotConn,
		WroteHeaders:         func() { set(&r.headDone) },
		GotFirstResponseByte: func() { set(&r.replyBegan) },
	})
}

func (r *recorder) gotConn(info httptrace.GotConnInfo) {
	c := info.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	m, ok := c.(*meteredConn)
	if !ok {
		return // every connection comes from our dialer; without one, phase says committed
	}
	m.begin(r.mayGo)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = m
}

// mayGo reports why nothing may be written any more. The clock is asked, too: in a process that was stopped and goes on, a context can
// be past its deadline and not know it yet, because its timer has not run.
func (r *recorder) mayGo() error {
	if end, ok := r.ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return r.ctx.Err()
}

// failed says what a RoundTrip's error means. It ends the connection, so that what is said stays true.
func (r *recorder) failed(err error) Exchange {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	wrote := conn == nil || conn.seal() // first, and without the lock: hooks may still run
	r.mu.Lock()
	defer r.mu.Unlock()
	x := Exchange{Phase: PhaseCommitted}
	switch {
	case !r.looked:
		x.Phase = PhaseNone
	case conn == nil && !r.headDone, !wrote:
		x.Phase = PhaseConnect
	case !r.headDone:
		x.Phase = PhaseRequest
	}
	x.Code = r.why(err, conn == nil)
	return x
}

func (r *recorder) why(err error, connecting bool) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, errForbidden):
		return HTTPForbidden
	case errors.Is(r.ctx.Err(), context.Canceled):
		return HTTPCanceled
	case r.ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return HTTPTimeout
	case errors.As(err, &dns):
		return HTTPName
	case connecting && r.handshake:
		return HTTPTLS
	case connecting:
		return HTTPDial
	case r.replyBegan && !lost(err):
		return HTTPMalformed
	}
	return HTTPLost
}

// lost reports whether the error says that the connection ended.
func lost(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
