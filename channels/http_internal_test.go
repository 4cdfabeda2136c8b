package channels

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"testing"
	"time"
)

// X3, OWASP's list: what must not be dialled outside ALLOW_PRIVATE, and what may.
func TestX3AddressesThatMayBeDialled(t *testing.T) {
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")})
	for address, want := range map[string]struct{ any, private bool }{
		"93.184.215.14:443":       {true, false},
		"93.184.215.14:8443":      {true, false},
		"93.184.215.14:22":        {false, false},
		"93.184.215.14:80":        {false, false},
		"[2606:2800:21f::1]:443":  {true, false},
		"10.20.1.1:9000":          {true, true},
		"[::ffff:10.20.1.1]:9000": {true, true},
		"10.21.1.1:443":           {},
		"127.0.0.1:443":           {},
		"[::1]:443":               {},
		"0.0.0.0:443":             {},
		"[::]:443":                {},
		"169.254.169.254:443":     {},
		"[fe80::1%eth0]:443":      {},
		"172.16.0.1:443":          {},
		"192.168.1.1:443":         {},
		"100.64.0.1:443":          {},
		"[fc00::1]:443":           {},
		"[64:ff9b::7f00:1]:443":   {},
		"[2002:7f00:1::]:443":     {},
		"[::ffff:127.0.0.1]:443":  {},
		"224.0.0.1:443":           {},
		"255.255.255.255:443":     {},
		"198.18.0.1:443":          {},
		"not an address":          {},
	} {
		network := "tcp6"
		if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().Is4() {
			network = "tcp4"
		}
		if got := g.any(network, address, nil) == nil; got != want.any {
			t.Errorf("%s over TLS: allowed %v", address, got)
		}
		if got := g.private(network, address, nil) == nil; got != want.private {
			t.Errorf("%s in plain text: allowed %v", address, got)
		}
	}
	if g.any("udp4", "93.184.215.14:443", nil) == nil {
		t.Error("a network that is not TCP is allowed")
	}
}

// A write that the kernel does not take is no byte on the wire; after the seal nothing can become one.
func TestDeadConnectionTookNothing(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := &meteredConn{Conn: raw}
	c.begin(t.Context().Err)
	if _, err := c.Write([]byte("alive")); err != nil {
		t.Fatal(err)
	}
	_ = peer.(*net.TCPConn).SetLinger(0)
	_ = peer.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil { // returns when the reset has come
		t.Fatal("read from a reset connection")
	}
	c.begin(t.Context().Err)
	if _, err := c.Write([]byte("dead")); err == nil {
		t.Fatal("wrote to a reset connection")
	}
	if c.seal() {
		t.Error("the meter says that something was written")
	}
	if _, err := c.Write([]byte("late")); err == nil {
		t.Error("wrote after the seal")
	}
}

func TestNothingBeginsUnderADoneContext(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() { _, _ = io.Copy(io.Discard, b) }() // takes whatever is written
	ctx, cancel := context.WithCancel(t.Context())
	c := &meteredConn{Conn: a}
	c.begin(ctx.Err)
	cancel()
	if n, err := c.Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if c.seal() {
		t.Error("the meter says that something was written")
	}
}

// unaware is past its deadline and does not know it, as right after a pause of the whole process.
type unaware struct{ context.Context }

func (unaware) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestNothingBeginsPastADeadlineThatTheContextHasNotNoticed(t *testing.T) {
	r := &recorder{ctx: unaware{context.Background()}}
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close(); _ = theirs.Close() }()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // takes whatever is written
	m := &meteredConn{Conn: ours}
	r.gotConn(httptrace.GotConnInfo{Conn: m})
	if _, err := m.Write([]byte("GET / HTTP/1.1")); !errors.Is(err, context.DeadlineExceeded) || m.seal() {
		t.Errorf("a write past the deadline ended with %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	date := func(at time.Time) string { return at.Format(http.TimeFormat) }
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{" 7 ", "", 7 * time.Second},
		{"0", "", RetryAfterMin},
		{"3600", "", time.Hour},
		{"3601", "", RetryAfterMax},
		{"315360000", "", RetryAfterMax},
		{"99999999999999999999999999", "", RetryAfterMax},
		{"9223372036854775807", "", RetryAfterMax},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"0x10", "", 0},
		{date(now.Add(90 * time.Second)), "", 90 * time.Second},
		{date(now.Add(-90 * time.Second)), "", RetryAfterMin},
		{date(now.AddDate(10, 0, 0)), "", RetryAfterMax},
		{"Monday, 30-Nov-26 10:01:00 GMT", "", time.Minute},
		{date(now.Add(90 * time.Second)), date(now.Add(60 * time.Second)), 30 * time.Second}, // the peer's clock is ahead
		{date(now.Add(90 * time.Second)), "yesterday", 90 * time.Second},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.value)
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := ParseRetryAfter(h, now); got != c.want {
			t.Errorf("Retry-After %q with Date %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

// B4 and the table of providers.md section 1, for every status that three digits can write.
func TestB4EveryStatusHasItsOutcome(t *testing.T) {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for status := 1; status <= 999; status++ {
		want := Unknown
		switch {
		case status >= 200 && status < 300:
			want = Accepted
		case status == 429 || status == 425:
			want = Throttled
		case status == 408:
			want = Unknown
		case status >= 300 && status < 500:
			want = Refused
		}
		o := ClassifyHTTP(Exchange{Phase: PhaseReply, Status: status, Header: http.Header{"Retry-After": {"9"}}, At: now})
		if o.Result() != want || o.DeadRecipient() {
			t.Errorf("%d: %v, want %v", status, o.Result(), want)
		}
		waits := want == Throttled || want == Unknown
		if got := o.Wait() == 9*time.Second; got != waits {
			t.Errorf("%d: waits %v", status, o.Wait())
		}
	}
	if o := ClassifyHTTP(Exchange{Phase: PhaseReply, Status: 429, At: now}); o.Wait() != 0 {
		t.Errorf("429 that does not say how long: %v, want our own back-off", o.Wait())
	}
}

func TestNoReplyIsNotSentOnlyBeforeTheHead(t *testing.T) {
	for phase, want := range map[Phase]Result{
		PhaseNone: NotSent, PhaseConnect: NotSent, PhaseRequest: NotSent, PhaseCommitted: Unknown, PhaseReply: Unknown,
	} {
		for code, sentence := range httpSentences {
			want := want
			if want == NotSent && (code == HTTPForbidden || code == HTTPInvalid) {
				want = Refused
			}
			o := ClassifyHTTP(Exchange{Phase: phase, Code: code})
			if o.Result() != want || o.Phase() != phase || o.Code() != code || o.Message() != sentence || sentence == "" {
				t.Errorf("%s at %q: %v at %q, want %v", code, phase, o.Result(), o.Phase(), want)
			}
		}
	}
	if o := ClassifyHTTP(Exchange{}); o.Result() != Unknown {
		t.Errorf("the zero exchange is %v", o.Result())
	}
}
