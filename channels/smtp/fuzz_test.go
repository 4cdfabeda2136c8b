package smtp

import (
	"errors"
	"io"
	"net"
	"net/textproto"
	"os"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/onebell/onebell/channels"
)

var fuzzErrors = []error{
	nil, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.ECONNREFUSED, errTLSPolicy, errMechanism,
	errNoUTF8, errTooLarge, errEarlyReply, errFlood, textproto.ProtocolError("short"), &net.DNSError{Name: "ada.example"}, errors.New("ada@example.org"),
}

// FuzzClassify: whatever a server says, at whatever step, an outcome claims no more than the reply proves.
func FuzzClassify(f *testing.F) {
	for s := range len(stageNames) {
		for _, code := range []int{0, 211, 250, 354, 421, 432, 450, 452, 535, 550, 552, 555, 599, 999, -250} {
			f.Add(uint8(s), code, "5.1.1 no such user\r\n\x00\u202e", uint8(s+code), code%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, code int, text string, cause uint8, utf8Asked bool) {
		s := stage(int(at) % len(stageNames))
		var err error = &textproto.Error{Code: code, Msg: text}
		if code == 0 {
			err = fuzzErrors[int(cause)%len(fuzzErrors)]
		}
		fault := newFault(s, err)
		o := classify(*fault.with(utf8Asked))
		sound := false
		switch kind := code / 100; o.Result() {
		case channels.Accepted:
			sound = s == stageDot && kind == 2
		case channels.Refused:
			sound = s == stageDot && kind == 5 || s > stageMail && s < stageDot && kind == 5 || s == stageMail && kind == 5 && utf8Asked || code == 0 && fault.own() && s < stageDot
		case channels.Throttled, channels.NotSent, channels.Misconfigured: // nothing can have happened
			sound = s < stageDot || kind == 4 || kind == 5
		case channels.Unknown:
			sound = s == stageDot
		}
		if o.DeadRecipient() {
			sound = sound && s >= stageRcpt && code/100 == 5
		}
		if !sound {
			t.Fatalf("%d %q %v %s became %s %q", code, text, err, s, o.Result(), o.Code())
		}
		if !utf8.ValidString(o.Message()) || len(o.Message()) > channels.MaxMessage || len(o.Code()) > channels.MaxCode {
			t.Fatalf("%q %q", o.Code(), o.Message())
		}
	})
}
