package fcm

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
)

// Whatever a library asks for, one attempt is one request; and what it is told is nothing that it repeats.
func TestD2AShotIsFiredOnce(t *testing.T) {
	for _, status := range []int{200, 307, 429, 503} {
		p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Fault: channeltest.FaultStatus(status), Header: http.Header{"Location": {"/elsewhere"}}})
		e, err := channels.NewHTTPEngine(channels.HTTPOptions{Timeout: time.Minute, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		if err != nil {
			t.Fatal(err)
		}
		s := &shot{engine: e, ctx: t.Context()}
		client := &http.Client{Transport: s}
		for i := range 3 {
			reply, err := client.Post(p.URL("/"), "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			_ = reply.Body.Close()
			if first := i == 0 && status == 200; (reply.StatusCode == 200) != first || !first && reply.StatusCode != answered {
				t.Errorf("%d: the library is told %d", status, reply.StatusCode)
			}
		}
		if n := len(p.Arrivals()); n != 1 || s.exchange.Status != status {
			t.Errorf("%d: %d requests, recorded %d", status, n, s.exchange.Status)
		}
	}
}

// A request that belongs to no attempt is not made.
func TestNoAttemptNoRequest(t *testing.T) {
	p := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{})
	reply, err := (&http.Client{Transport: byContext{}}).Post(p.URL("/"), "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if reply.StatusCode != answered || p.Connections() != 0 {
		t.Errorf("%d, %d connections", reply.StatusCode, p.Connections())
	}
}
