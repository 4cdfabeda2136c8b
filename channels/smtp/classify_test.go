package smtp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/onebell/onebell/channels"
)

const (
	accepted   = channels.Accepted
	refusedFor = channels.Refused
	notSent    = channels.NotSent
	throttled  = channels.Throttled
	misconf    = channels.Misconfigured
	unknown    = channels.Unknown
)

// TestClassifyReplies is the outcome table of providers.md §3 with its reasons in classifyReply.
func TestClassifyReplies(t *testing.T) {
	for _, row := range []struct {
		code string
		// one result per stage: up to login, MAIL, RCPT, DATA, dot
		want [5]channels.Result
	}{
		{"421", [5]channels.Result{throttled, throttled, throttled, throttled, throttled}},
		{"450", [5]channels.Result{throttled, throttled, notSent, notSent, notSent}},
		{"451 4.3.0", [5]channels.Result{throttled, throttled, notSent, notSent, notSent}},
		{"452 4.3.1", [5]channels.Result{throttled, throttled, throttled, throttled, throttled}},
		{"452 4.2.2", [5]channels.Result{notSent, notSent, notSent, notSent, notSent}}, // one full mailbox
		{"454 4.7.0", [5]channels.Result{notSent, notSent, notSent, notSent, notSent}},
		{"432", [5]channels.Result{misconf, misconf, misconf, misconf, misconf}},
		{"530 5.7.0", [5]channels.Result{misconf, misconf, misconf, misconf, misconf}},
		{"534", [5]channels.Result{misconf, misconf, misconf, misconf, misconf}},
		{"535 5.7.8", [5]channels.Result{misconf, misconf, misconf, misconf, misconf}},
		{"538", [5]channels.Result{misconf, misconf, misconf, misconf, misconf}},
		{"501", [5]channels.Result{misconf, misconf, refusedFor, refusedFor, refusedFor}},
		{"503 5.5.1", [5]channels.Result{misconf, misconf, notSent, notSent, refusedFor}},
		{"550", [5]channels.Result{misconf, misconf, refusedFor, refusedFor, refusedFor}},
		{"550 5.4.5", [5]channels.Result{throttled, throttled, throttled, throttled, throttled}},
		{"553 5.1.8", [5]channels.Result{misconf, misconf, refusedFor, refusedFor, refusedFor}},
		{"554 5.7.1", [5]channels.Result{misconf, misconf, refusedFor, refusedFor, refusedFor}},
		{"250", [5]channels.Result{notSent, notSent, notSent, notSent, accepted}},
		{"252", [5]channels.Result{notSent, notSent, notSent, notSent, accepted}},
		{"354", [5]channels.Result{notSent, notSent, notSent, notSent, unknown}},
		{"150", [5]channels.Result{notSent, notSent, notSent, notSent, unknown}},
		{"621", [5]channels.Result{notSent, notSent, notSent, notSent, unknown}},
	} {
		var code int
		_, _ = fmt.Sscanf(row.code, "%d", &code)
		_, enhanced, _ := strings.Cut(row.code, " ")
		for i, stages := range [][]stage{{stageGreeting, stageHello, stageTLS, stageAuth}, {stageMail}, {stageRcpt}, {stageData}, {stageDot}} {
			for _, s := range stages {
				f := newFault(s, &textproto.Error{Code: code, Msg: enhanced + " some words"})
				o := classify(*f)
				if o.Result() != row.want[i] || o.Code() != row.code[:3] {
					t.Errorf("%s %v: %v code %q, want %v", row.code, s, o.Result(), o.Code(), row.want[i])
				}
				if o.Result() != channels.Unknown && o.Phase() != channels.PhaseReply {
					t.Errorf("%s %v: phase %q, want a reply", row.code, s, o.Phase())
				}
			}
		}
	}
}

func TestClassifyDeadRecipients(t *testing.T) {
	for text, dead := range map[string]bool{
		"5.1.1 nobody": true, "5.1.10 null MX": true, "5.2.1 disabled": true,
		"5.1.2 no such host": false, "5.2.2 full": false, "5.7.1 5.1.1": false, "no code": false, "4.1.1 of another class": false, "5.1.100 other": false,
	} {
		for _, s := range []stage{stageRcpt, stageDot} {
			o := classify(*newFault(s, &textproto.Error{Code: 550, Msg: text}))
			if o.DeadRecipient() != dead || o.Result() != channels.Refused {
				t.Errorf("550 %s %v: %v dead %v, want %v", text, s, o.Result(), o.DeadRecipient(), dead)
			}
		}
		if classify(*newFault(stageMail, &textproto.Error{Code: 550, Msg: text})).DeadRecipient() {
			t.Errorf("550 %s at MAIL is about the sender", text)
		}
	}
}

func TestClassifyUTF8AtMail(t *testing.T) {
	for code, text := range map[int]string{555: "parameter not known", 553: "5.6.7 no", 550: "5.6.7 no"} {
		e := &textproto.Error{Code: code, Msg: text}
		if o := classify(*newFault(stageMail, e).with(true)); o.Result() != channels.Refused {
			t.Errorf("%d %s with SMTPUTF8: %v", code, text, o.Result())
		}
		if o := classify(*newFault(stageMail, e)); o.Result() != channels.Misconfigured {
			t.Errorf("%d %s without SMTPUTF8: %v", code, text, o.Result())
		}
	}
}

// TestClassifyErrors: without a reply nothing is "refused", and after the dot everything is unknown. A lost connection is not the
// channel's configuration; what TLS or login object to is.
func TestClassifyErrors(t *testing.T) {
	lost := []error{
		io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, context.DeadlineExceeded, context.Canceled, net.ErrClosed, errFlood,
		textproto.ProtocolError("short response: 25"), &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
		&net.OpError{Op: "write", Err: syscall.EPIPE},
	}
	odd := []error{errors.New("4 is the first letter of this text"), x509.UnknownAuthorityError{}, x509.HostnameError{Certificate: &x509.Certificate{}}, errTLSPolicy, errMechanism}
	for s := stageDial; s <= stageDot; s++ {
		want := notSent
		if s == stageDot {
			want = unknown
		}
		for _, err := range lost {
			if o := classify(*newFault(s, err)); o.Result() != want || o.Phase() != s.phase() {
				t.Errorf("%v %v: %v at phase %q, want %v", s, err, o.Result(), o.Phase(), want)
			}
		}
		for _, err := range odd {
			w := want
			if s == stageTLS || s == stageAuth {
				w = misconf
			}
			if o := classify(*newFault(s, err)); o.Result() != w {
				t.Errorf("%v %v: %v, want %v", s, err, o.Result(), w)
			}
		}
	}
	for _, err := range []error{errNoUTF8, errTooLarge} {
		if o := classify(fault{stage: stageMail, err: err}); o.Result() != channels.Refused {
			t.Errorf("%v: %v", err, o.Result())
		}
	}
	if o := classify(fault{}); o.Result() != channels.NotSent || o.Phase() != channels.PhaseConnect {
		t.Errorf("the zero fault is %v", o.Result())
	}
}

func TestQueueID(t *testing.T) {
	for text, want := range map[string]string{
		"2.0.0 Ok: queued as 4F2A1B9C": "4F2A1B9C", "OK id=1abCdE-0001Xy-2Z": "1abCdE-0001Xy-2Z", "Ok: queued as \"x.y_z-1\"": "x.y_z-1",
		"2.0.0 4AUHq3Xk012345 Message accepted for delivery": "4AUHq3Xk012345", "2.0.0 OK  1700000000 d9443c01a7336-2 - gsmtp": "d9443c01a7336-2",
		"Ok 0102018c1f2e3d4c-01234567-89ab-cdef-0123-456789abcdef-000000": "0102018c1f2e3d4c-01234567-89ab-cdef-0123-456789abcdef-000000",
		"2.0.0 Ok": "", "": "", "queued as " + strings.Repeat("x", 129): "", "Ok\nqueued as 77": "77", "queued as <x@y>": "",
	} {
		if got := queueID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestStrike: neither recipient nor account stands in what is stored of a server's words.
func TestStrike(t *testing.T) {
	s := settled{Config: Config{Username: "relay-user", Password: "hunter2-secret"}}
	for text, want := range map[string]string{
		"5.1.1 <Ada.Lovelace@example.org>: unknown":          "5.1.1 <***>: unknown",
		"no ADA.LOVELACE@EXAMPLE.ORG here":                   "no *** here",
		"user ada.lovelace unknown":                          "user *** unknown",
		"try ada.lovelace=example.org@relay.net or bob@x.y.": "try <address> or <address>.",
		"login relay-user failed for hunter2-secret":         "login *** failed for ***",
		"AUTH PLAIN AHJlbGF5LXVzZXIAaHVudGVyMi1zZWNyZXQ=":    "AUTH PLAIN ***",
		"5.7.1 see https://example.net/why":                  "5.7.1 see https://example.net/why",
	} {
		if got := s.strike(text, testRecipient); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
