package channels_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
)

// patience is longer than a slow machine takes for anything; what ends by time gets a time of its own.
const (
	patience = 2 * time.Minute
	brief    = 2 * time.Second
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func engine(t *testing.T, o channels.HTTPOptions) *channels.HTTPEngine {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	e, err := channels.NewHTTPEngine(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func post(url string) channels.HTTPRequest {
	return channels.HTTPRequest{
		Method: http.MethodPost, URL: url, Body: []byte(`{"type":"x"}`),
		Header: http.Header{"Idempotency-Key": {"key-1"}, "Content-Type": {"application/json"}},
	}
}

// net/http resends a POST that carries an Idempotency-Key when the connection it was reused on dies: one attempt on record,
// two effects on the wire (providers.md section 0.5).
func TestNoHiddenResendOnAReusedConnection(t *testing.T) {
	for _, fault := range []channeltest.Fault{channeltest.FaultCloseAfter, channeltest.FaultResetAfter, channeltest.FaultSilence} {
		t.Run(string(fault), func(t *testing.T) {
			p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Fault: fault, Skip: 1})
			o := channels.HTTPOptions{AllowPrivate: loopback, IdleTimeout: patience}
			if fault == channeltest.FaultSilence {
				o.Timeout = brief
			}
			e := engine(t, o)
			if x := e.Do(t.Context(), post(p.URL("/hook"))); x.Status != 200 {
				t.Fatalf("first exchange: %+v", x)
			}
			x := e.Do(t.Context(), post(p.URL("/hook")))
			if o := channels.ClassifyHTTP(x); o.Result() != channels.Unknown || o.Phase() != channels.PhaseCommitted {
				t.Errorf("second exchange: %v at %q", o.Result(), o.Phase())
			}
			if n := len(p.Arrivals()); n != 2 {
				t.Errorf("%d requests on the wire for two exchanges", n)
			}
			if n := p.Connections(); n != 1 {
				t.Errorf("%d connections: the second exchange was not on the reused one, so this shows nothing", n)
			}
		})
	}
}

// A request without a body is replayable for net/http whatever GetBody says.
func TestPostWithoutBodyIsNotMade(t *testing.T) {
	p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
	r := post(p.URL("/"))
	r.Body = nil
	x := engine(t, channels.HTTPOptions{AllowPrivate: loopback}).Do(t.Context(), r)
	if x.Status != 0 || x.Phase != channels.PhaseNone || p.Connections() != 0 {
		t.Errorf("%+v, %d connections", x, p.Connections())
	}
}

// X3: a redirect is a new, unchecked URL, and a 307 or 308 would repeat the POST with its keys at another host.
func TestX3RedirectsAreNotFollowed(t *testing.T) {
	inside := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{inside.URL("/stolen"), "http://169.254.169.254/latest/meta-data", "http://[::1]:1/"} {
			p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Fault: channeltest.FaultStatus(status), Header: http.Header{"Location": {to}}})
			o := channels.ClassifyHTTP(engine(t, channels.HTTPOptions{AllowPrivate: loopback}).Do(t.Context(), post(p.URL("/"))))
			if o.Result() != channels.Refused || o.Code() != fmt.Sprint(status) || !strings.Contains(o.Message(), "redirect") {
				t.Errorf("%d: %v %s %q", status, o.Result(), o.Code(), o.Message())
			}
			if len(p.Arrivals()) != 1 || inside.Connections() != 0 {
				t.Errorf("%d: %d requests here, %d connections at the address redirected to", status, len(p.Arrivals()), inside.Connections())
			}
		}
	}
}

// X3: the address that is dialled decides, not the name.
func TestX3InternalAddressesAreNotDialled(t *testing.T) {
	p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
	_, port, _ := net.SplitHostPort(p.Addr())
	e := engine(t, channels.HTTPOptions{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		for _, scheme := range []string{"http", "https"} {
			o := channels.ClassifyHTTP(e.Do(t.Context(), post(scheme+"://"+host+":"+port+"/hook")))
			if o.Result() != channels.Refused || o.Code() != channels.HTTPForbidden || o.Phase() != channels.PhaseConnect {
				t.Errorf("%s %s: %v %s at %q", scheme, host, o.Result(), o.Code(), o.Phase())
			}
		}
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections to an internal address", n)
	}
}

// A context that ends between the connection and the write begins nothing.
func TestNothingIsWrittenUnderADoneContext(t *testing.T) {
	for _, tls := range []bool{false, true} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{TLS: tls})
		ctx, cancel := context.WithCancel(t.Context())
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { cancel() }})
		x := engine(t, channels.HTTPOptions{AllowPrivate: loopback, RootCAs: p.Roots}).Do(ctx, post(p.URL("/")))
		if o := channels.ClassifyHTTP(x); o.Result() != channels.NotSent || o.Phase() != channels.PhaseConnect || o.Code() != channels.HTTPCanceled {
			t.Errorf("TLS %v: %v %s at %q", tls, o.Result(), o.Code(), o.Phase())
		}
		// The dial is done before the peer's accept returns.
		if !channeltest.Poll(patience, func() bool { return p.Connections() == 1 }) || len(p.Arrivals()) != 0 {
			t.Errorf("TLS %v: %d connections, %d requests; want 1, 0", tls, p.Connections(), len(p.Arrivals()))
		}
	}
}

// R1: the status line decides; what follows is bounded in size and time.
func TestR1TheStatusLineDecides(t *testing.T) {
	const limit = 4 << 10
	for _, fault := range []channeltest.Fault{channeltest.FaultBreakAfter, channeltest.FaultDrip, channeltest.FaultFlood, channeltest.FaultBomb} {
		t.Run(string(fault), func(t *testing.T) {
			p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Fault: fault})
			o := channels.HTTPOptions{AllowPrivate: loopback, MaxReply: limit}
			if fault == channeltest.FaultDrip { // it drips for ever: the attempt's own time ends it
				o.Timeout = brief
			}
			e := engine(t, o)
			x := e.Do(t.Context(), post(p.URL("/")))
			if o := channels.ClassifyHTTP(x); o.Result() != channels.Accepted {
				t.Errorf("%v %s, want accepted", o.Result(), o.Code())
			}
			if x.Whole || len(x.Body) > limit {
				t.Errorf("whole %v with %d bytes kept, limit %d", x.Whole, len(x.Body), limit)
			}
		})
	}
}

func TestInterimRepliesAreNotTheReply(t *testing.T) {
	p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Reply: func(w io.Writer, _ *http.Request, _ []byte) {
		_, _ = io.WriteString(w, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")
	}})
	if x := engine(t, channels.HTTPOptions{AllowPrivate: loopback}).Do(t.Context(), post(p.URL("/"))); x.Status != 410 {
		t.Errorf("%+v", x)
	}
}

// What a peer echoes of the URL and of the request's secrets does not get into the record.
func TestExcerptHoldsNoPartOfTheURL(t *testing.T) {
	for _, fault := range []channeltest.Fault{channeltest.FaultNone, channeltest.FaultStatus(400), channeltest.FaultStatus(503)} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Fault: fault})
		r := post(p.URL("/customers/ada%40example.org/t0ken-in-path?secret=t0ken-in-query"))
		r.Header.Set("Authorization", "Bearer t0ken-in-header")
		r.Secrets = []string{"t0ken-in-header"}
		x := engine(t, channels.HTTPOptions{AllowPrivate: loopback}).Do(t.Context(), r)
		for _, s := range []string{"ada", "t0ken", "127.0.0.1", "customers"} {
			if strings.Contains(x.Excerpt, s) {
				t.Errorf("%q: the excerpt holds %q: %s", fault, s, x.Excerpt)
			}
		}
		if !strings.Contains(x.Excerpt, "you called") {
			t.Errorf("%q: the excerpt lost what was harmless: %q", fault, x.Excerpt)
		}
	}
}

func TestEngineNeedsATimeout(t *testing.T) {
	if _, err := channels.NewHTTPEngine(channels.HTTPOptions{}); err == nil {
		t.Error("an engine without a timeout")
	}
}
