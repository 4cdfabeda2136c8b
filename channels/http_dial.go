package channels

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// addressCheck is a net.Dialer's Control: it sees the address that is dialled, after the name was resolved, so that
// a name cannot pass a check and then resolve to something else.
type addressCheck func(network, address string, c syscall.RawConn) error

var errForbidden = errors.New("the address may not be connected to")

// guard keeps the engine out of networks that only we can reach.
type guard struct {
	allow  []netip.Prefix
	public *ssrf.Guardian
}

func newGuard(allow []netip.Prefix) guard {
	return guard{allow: allow, public: ssrf.New(ssrf.WithPorts(publicPorts...))}
}

// private lets the allowed prefixes pass alone.
func (g guard) private(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !AllowedPrivate(g.allow, ap.Addr()) {
		return errForbidden
	}
	return nil
}

// any lets the allowed prefixes pass, and public addresses on public ports.
func (g guard) any(network, address string, c syscall.RawConn) error {
	if g.private(network, address, c) == nil {
		return nil
	}
	if err := g.public.Safe(network, address, c); err != nil {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return nil
}

// AllowedPrivate reports whether the address lies in one of the prefixes, IPv4 in its IPv6 form included.
func AllowedPrivate(allow []netip.Prefix, a netip.Addr) bool {
	for _, p := range allow {
		if p.Contains(a.Unmap()) {
			return true
		}
	}
	return false
}

func dialer(check addressCheck, timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout, Control: check}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &meteredConn{Conn: c}, nil
	}
}

var errSealed = errors.New("the exchange has ended")

// meteredConn counts what is written for one exchange, and is the last gate before it: the transport's own hooks speak of
// its buffer, not of the wire. An exchange has the connection to itself (HTTP/1.1).
type meteredConn struct {
	net.Conn

	mu      sync.Mutex
	mayGo   func() error // asked before the first byte of an exchange
	written int          // handed to the kernel, or being handed to it
	sealed  bool
}

// begin starts counting for an exchange.
func (c *meteredConn) begin(mayGo func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mayGo, c.written = mayGo, 0
}

// seal lets nothing more be written, and reports whether anything of the exchange was: after a "no" nothing ever will be.
func (c *meteredConn) seal() (wrote bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.written > 0
}

func (c *meteredConn) Write(p []byte) (int, error) {
	if err := c.open(len(p)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	c.written -= len(p) - n // what the kernel did not take, as on a connection that is known to be dead
	c.mu.Unlock()
	return n, err
}

func (c *meteredConn) open(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return errSealed
	}
	if c.mayGo != nil && c.written == 0 {
		if err := c.mayGo(); err != nil {
			c.sealed = true
			return err
		}
	}
	c.written += n
	return nil
}
