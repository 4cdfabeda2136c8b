package smtp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/onebell/onebell/channels"
)

// stage is how far an attempt came; the stages stand in their order on the wire.
type stage uint8

const (
	stageDial stage = iota
	stageGreeting
	stageHello
	stageTLS
	stageAuth
	stageMail
	stageRcpt
	stageData
	stageBody
	stageDot
)

var stageNames = [...]string{
	"connecting", "at the greeting", "at EHLO", "at TLS", "at login", "at MAIL", "at RCPT", "at DATA",
	"in the body", "after the final dot",
}

func (s stage) String() string { return stageNames[s] }

func (s stage) phase() channels.Phase {
	switch {
	case s < stageMail:
		return channels.PhaseConnect
	case s < stageDot:
		return channels.PhaseRequest
	}
	return channels.PhaseCommitted
}

// reply is what the server answered. Code 0: no whole reply was read.
type reply struct {
	code     int
	enhanced string // RFC 3463, "" if the server gave none of the same class
	text     string
}

var enhancedCode = regexp.MustCompile(`^([245]\.\d{1,3}\.\d{1,3})(?:\s|$)`)

func newReply(e *textproto.Error) reply {
	r := reply{code: e.Code, text: e.Msg}
	if m := enhancedCode.FindStringSubmatch(e.Msg); m != nil && strings.HasPrefix(m[1], strconv.Itoa(e.Code/100)) {
		r.enhanced = m[1]
	}
	return r
}

// fault is how a step ended that did not succeed: with a reply, or with an error and none.
type fault struct {
	stage  stage
	reply  reply
	err    error
	utf8   bool // SMTPUTF8 was asked for
	reused bool // on a connection that had served before
}

func newFault(s stage, err error) *fault {
	f := &fault{stage: s, err: err}
	var answer *textproto.Error
	if errors.As(err, &answer) {
		f.reply = newReply(answer)
	}
	return f
}

func (f *fault) with(utf8 bool) *fault { f.utf8 = utf8; return f }

// stale reports whether a connection from the pool turned out dead before anything of the mail was written.
func (f *fault) stale() bool {
	return f != nil && f.reused && (f.stage == stageMail || f.stage == stageRcpt) && !f.own() && (f.reply.code == 0 || f.reply.code == 421)
}

// harmless reports whether the connection is as good as before: nothing was begun that RSET would not end.
func (f *fault) harmless() bool {
	kind := f.reply.code / 100
	return f.own() || f.stage >= stageMail && f.stage <= stageData && (kind == 4 || kind == 5) && f.reply.code != 421
}

// own reports whether the step was not even tried.
func (f *fault) own() bool { return errors.Is(f.err, errNoUTF8) || errors.Is(f.err, errTooLarge) }

// What this package itself finds in the way.
var (
	errTLSPolicy  = errors.New("the server does not offer STARTTLS, and TLS is mandatory; mend the server or set TLS")
	errMechanism  = errors.New("the server offers no login that may be used here; check USERNAME and TLS: a password is sent over TLS alone")
	errNoUTF8     = errors.New("the mail server does not take addresses with other characters than ASCII before the @ (no SMTPUTF8)")
	errTooLarge   = errors.New("the mail is larger than the server takes (SIZE)")
	errEarlyReply = errors.New("the server spoke out of turn")
)

// Replies that mean something of their own. RFC 4954 §6 has 432, 530, 534, 535, 538. RFC 3463 §3.2 and RFC 7505 have the dead addresses.
var (
	loginCodes = []int{432, 530, 534, 535, 538}
	deadCodes  = []string{"5.1.1", "5.1.10", "5.2.1"}
)

// classify says what a fault means. It is pure. A lost connection or a timeout never means "refused", and nothing without a reply
// is definite once a byte of the final dot may have left.
func classify(f fault) channels.Outcome {
	if f.reply.code != 0 {
		return classifyReply(f.stage, f.reply, f.utf8)
	}
	code, why := cause(f.err)
	sentence := f.stage.String() + ": " + why
	switch {
	case f.stage == stageDot:
		return channels.OutcomeUnknown(channels.PhaseCommitted, code, sentence)
	case f.own():
		return channels.OutcomeRefused(code, why)
	case (f.stage == stageTLS || f.stage == stageAuth) && !broken(f.err):
		return channels.OutcomeMisconfigured(channels.PhaseConnect, code, sentence)
	}
	return channels.OutcomeNotSent(f.stage.phase(), code, sentence)
}

// classifyReply reads a reply. Until MAIL has been answered nothing was said about this notification (the sender is the channel's), so
// a 5xx is a fault of the channel. At RCPT a 4xx is about one mailbox (grey-listing, a full box), before that about us.
// After the dot RFC 5321 §4.2.5 makes 4xx and 5xx definite: the server must not deliver.
func classifyReply(s stage, r reply, utf8 bool) channels.Outcome {
	code, kind := strconv.Itoa(r.code), r.code/100
	switch {
	case s == stageDot && kind == 2:
		return channels.OutcomeAccepted(queueID(r.text), code, r.text)
	case r.code == 421 || r.enhanced == "5.4.5" || r.code == 452 && r.enhanced != "4.2.2":
		// 5.4.5 is how Google says that a day's quota is used up: https://support.google.com/a/answer/3726730
		return channels.OutcomeThrottled(0, code, r.text)
	case slices.Contains(loginCodes, r.code):
		return channels.OutcomeMisconfigured(channels.PhaseReply, code, r.text)
	case kind == 4 && s <= stageMail && (r.code == 450 || r.code == 451):
		return channels.OutcomeThrottled(0, code, r.text)
	case kind == 4:
		return channels.OutcomeNotSent(channels.PhaseReply, code, r.text)
	case kind == 5 && s == stageMail && utf8 && (r.code == 555 || strings.HasSuffix(r.enhanced, ".6.7")):
		return channels.OutcomeRefused(code, r.text)
	case kind == 5 && s <= stageMail:
		return channels.OutcomeMisconfigured(channels.PhaseReply, code, r.text)
	case r.code == 503 && s < stageDot: // out of sequence: says something about the conversation, nothing about the mail
		return channels.OutcomeNotSent(channels.PhaseReply, code, r.text)
	case kind == 5 && slices.Contains(deadCodes, r.enhanced):
		return channels.OutcomeDeadRecipient(code, r.text)
	case kind == 5:
		return channels.OutcomeRefused(code, r.text)
	case s == stageDot:
		return channels.OutcomeUnknown(channels.PhaseCommitted, code, r.text)
	}
	return channels.OutcomeNotSent(channels.PhaseReply, code, r.text)
}

// broken reports whether the connection ended, or the time, rather than anything being said.
func broken(err error) bool {
	var number syscall.Errno
	var protocol textproto.ProtocolError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, errFlood) || errors.As(err, &number) || errors.As(err, &protocol)
}

// cause names an error without quoting it, since errors carry addresses and what the server said.
func cause(err error) (code, sentence string) {
	var dns *net.DNSError
	var timeout net.Error
	var protocol textproto.ProtocolError
	switch {
	case errors.Is(err, errTLSPolicy):
		return "tls-policy", err.Error()
	case errors.Is(err, errMechanism):
		return "auth-mechanism", err.Error()
	case errors.Is(err, errEarlyReply):
		return "out-of-turn", err.Error()
	case errors.Is(err, errNoUTF8):
		return "no-smtputf8", err.Error()
	case errors.Is(err, errTooLarge):
		return "too-large", err.Error()
	case errors.Is(err, context.Canceled):
		return "cancelled", "the attempt was called off"
	case errors.As(err, &dns):
		return "dns", "the server's name could not be resolved"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout", "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection-refused", "nobody listens at the server's address"
	case errors.Is(err, errFlood), errors.As(err, &protocol):
		return "not-smtp", "the server's answer is not SMTP"
	case broken(err):
		return "connection-lost", "the connection was lost"
	case isCertificateError(err):
		return "tls-certificate", "the server's certificate is not trusted for its name; check the address, the name and the authorities"
	}
	return "failed", "it failed; the server and this client do not understand each other"
}
