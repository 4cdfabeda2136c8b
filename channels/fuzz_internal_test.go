package channels

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzRetryAfter: whatever a peer writes, the wait is none or within the bounds, and a number of seconds is what it says.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "-5", "1.5", "0x10", "99999999999999999999", "Mon, 30 Nov 2026 10:01:00 GMT", "Mon Nov 30 10:01:00 2026", "soon", " 7 ", "٣"} {
		f.Add(s, "", int64(0))
		f.Add(s, "Mon, 30 Nov 2026 10:00:00 GMT", int64(1e18))
	}
	f.Fuzz(func(t *testing.T, value, date string, clock int64) {
		h := http.Header{"Retry-After": {value}, "Date": {date}}
		got := ParseRetryAfter(h, time.Unix(0, clock))
		if got != 0 && (got < RetryAfterMin || got > RetryAfterMax) {
			t.Fatalf("Retry-After %q, Date %q: %v", value, date, got)
		}
		digits := strings.TrimSpace(value)
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return
		}
		want := time.Duration(0)
		for _, d := range digits {
			if want = want*10 + time.Duration(d-'0'); want > 3600 {
				want = 3600
			}
		}
		if want = max(want, 1) * time.Second; got != want {
			t.Fatalf("Retry-After %q: %v, want %v", value, got, want)
		}
	})
}

var (
	fuzzPhases = []Phase{PhaseNone, PhaseConnect, PhaseRequest, PhaseCommitted, PhaseReply}
	fuzzCodes  = []string{"", HTTPInvalid, HTTPForbidden, HTTPName, HTTPDial, HTTPTLS, HTTPTimeout, HTTPCanceled, HTTPLost, HTTPMalformed}
)

// FuzzClassifyHTTP: no reply of any kind leads to a claim that it does not prove, and nothing of a peer's words comes through uncleaned.
func FuzzClassifyHTTP(f *testing.F) {
	for _, status := range []int{0, 100, 200, 204, 301, 400, 404, 408, 409, 425, 429, 500, 503, 599, 999, -1} {
		f.Add(status, uint8(3), uint8(8), "7", "sorry\r\n\u202e<b>\x00\xff")
		f.Add(status, uint8(1), uint8(4), "", "")
	}
	f.Fuzz(func(t *testing.T, status int, phase, code uint8, wait, body string) {
		x := Exchange{Status: status, Phase: fuzzPhases[int(phase)%len(fuzzPhases)], Header: http.Header{"Retry-After": {wait}}, Excerpt: body}
		if status == 0 {
			x.Code = fuzzCodes[int(code)%len(fuzzCodes)]
		}
		o := ClassifyHTTP(x)
		replied := status != 0
		switch o.Result() {
		case Accepted:
			must(t, replied && status/100 == 2, x, o)
		case Refused:
			must(t, replied && (status/100 == 3 || status/100 == 4) && status != 429 && status != 425 && status != 408 ||
				!replied && (x.Code == HTTPForbidden || x.Code == HTTPInvalid), x, o)
		case Throttled:
			must(t, status == 429 || status == 425, x, o)
		case NotSent: // only where the peer cannot have acted
			must(t, !replied && x.Code != "" && x.Phase != PhaseCommitted && x.Phase != PhaseReply, x, o)
		case Unknown:
			must(t, !replied || status < 200 || status == 408 || status > 499, x, o)
		default:
			t.Fatalf("%+v became %v", x, o.Result())
		}
		must(t, len(o.Message()) <= MaxMessage && len(o.Code()) <= MaxCode && utf8.ValidString(o.Message()), x, o)
		must(t, !strings.ContainsFunc(o.Message()+o.Code(), func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x202a && r <= 0x202e }), x, o)
		must(t, o.Wait() == 0 || o.Wait() >= RetryAfterMin && o.Wait() <= RetryAfterMax, x, o)
		must(t, !o.DeadRecipient(), x, o)
	})
}

func must(t *testing.T, ok bool, x Exchange, o Outcome) {
	t.Helper()
	if !ok {
		t.Fatalf("%+v became %s %q %q, wait %v", x, o.Result(), o.Code(), o.Message(), o.Wait())
	}
}
