package smtp

import (
	"bytes"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// lameConn fails at the final dot, after so many of its bytes.
type lameConn struct {
	net.Conn
	after int
}

func (c lameConn) Write(p []byte) (int, error) {
	if !bytes.Equal(p, []byte(".\r\n")) {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:c.after])
	if err == nil {
		err = syscall.EPIPE
	}
	return n, err
}

// TestTheDotLeftOrItDidNot: a dot of which no byte left is "not sent"; one of which a byte left is unknown.
func TestTheDotLeftOrItDidNot(t *testing.T) {
	t.Parallel()
	for after, want := range []channels.Outcome{
		channels.OutcomeNotSent(channels.PhaseRequest, "", ""), channels.OutcomeUnknown(channels.PhaseCommitted, "", ""),
	} {
		p := newPeer(t, nil)
		c := newChannel(t, p.addr, hasty)
		a := hello(t, c)
		s, f := c.connect(t.Context(), time.Now().Add(patience))
		if f != nil {
			t.Fatal(f.err)
		}
		s.wire.Conn = lameConn{s.wire.Conn, after}
		c.pool.put(s, time.Now().Add(patience))
		o := c.Send(t.Context(), a)
		wantOutcome(t, o, want.Result(), want.Phase())
		honest(t, c, p, a, o)
	}
}
