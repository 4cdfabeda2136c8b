package wire

import (
	"strings"

	"github.com/onebell/onebell/dedup"
)

// Streams and the subjects that a dispatcher listens to. They are wider than the well-formed subjects, so that a message on a
// malformed one is refused instead of lying unseen.
const (
	RequestStream   = "ONEBELL_REQUESTS"
	EventStream     = "ONEBELL_EVENTS"
	RequestSubjects = "onebell.request.>"
	SubmitSubjects  = "onebell.submit.>"
	StatusSubjects  = "onebell.status.>"
	CancelSubjects  = "onebell.cancel.>"
	EventSubjects   = "onebell.event.>"
)

const root = "onebell"

// Kind is what a subject is for; it is the subject's second token.
type Kind string

// Kinds.
const (
	KindRequest Kind = "request" // onebell.request.<caller>.<channel>, in RequestStream
	KindSubmit  Kind = "submit"  // onebell.submit.<caller>.<channel>, answered with a Reply
	KindStatus  Kind = "status"  // onebell.status.<caller>, answered with a Status
	KindCancel  Kind = "cancel"  // onebell.cancel.<caller>, answered with a Cancelled
	KindEvent   Kind = "event"   // onebell.event.<caller>.<channel>.<what>, in EventStream
)

// Route is what a subject says. The caller in it is authenticated: the server's permissions bind it to the user.
type Route struct {
	Kind    Kind
	Caller  string
	Channel string // "" for KindStatus and KindCancel
	What    What   // KindEvent only
}

// RequestSubject returns the subject of durable requests. Caller and channel must have passed dedup.ParseCaller and ParseChannel,
// here and below.
func RequestSubject(caller, channel string) string { return join(KindRequest, caller, channel) }

// SubmitSubject returns the subject of requests that are answered.
func SubmitSubject(caller, channel string) string { return join(KindSubmit, caller, channel) }

// StatusSubject returns the subject of status questions.
func StatusSubject(caller string) string { return join(KindStatus, caller) }

// CancelSubject returns the subject of cancellations.
func CancelSubject(caller string) string { return join(KindCancel, caller) }

// EventSubject returns the subject of one outcome event.
func EventSubject(caller, channel string, what What) string {
	return join(KindEvent, caller, channel, string(what))
}

// CallerEvents returns the filter for all events of a caller; channel "" means all channels.
func CallerEvents(caller, channel string) string {
	if channel == "" {
		channel = "*"
	}
	return join(KindEvent, caller, channel, "*")
}

func join(kind Kind, tokens ...string) string {
	return root + "." + string(kind) + "." + strings.Join(tokens, ".")
}

// ParseSubject reads a subject. With an error, a *Refusal, the Route holds the well-formed parts, so that a refusal can still be
// shown to its caller.
func ParseSubject(subject string) (Route, error) {
	tokens := strings.Split(subject, ".")
	r := Route{Kind: Kind(token(tokens, 1))}
	shape, ok := shapes[r.Kind]
	if !ok || tokens[0] != root {
		return Route{}, refuse(CodeSubjectInvalid, "", "this is no subject of onebell; use onebell.request.<caller>.<channel>")
	}
	var err error
	if r.Caller, err = dedup.ParseCaller(token(tokens, 2)); err != nil {
		return r, fromInput(err)
	}
	if shape.tokens > 3 {
		if r.Channel, err = dedup.ParseChannel(token(tokens, 3)); err != nil {
			return r, fromInput(err)
		}
	}
	if shape.tokens > 4 {
		r.What = What(token(tokens, 4))
	}
	if len(tokens) != shape.tokens {
		return r, refuse(CodeSubjectInvalid, "", "the subject has the wrong number of parts; use "+shape.form)
	}
	return r, nil
}

var shapes = map[Kind]struct {
	tokens int
	form   string
}{
	KindRequest: {4, "onebell.request.<caller>.<channel>"},
	KindSubmit:  {4, "onebell.submit.<caller>.<channel>"},
	KindStatus:  {3, "onebell.status.<caller>"},
	KindCancel:  {3, "onebell.cancel.<caller>"},
	KindEvent:   {5, "onebell.event.<caller>.<channel>.<what>"},
}

func token(tokens []string, i int) string {
	if i < len(tokens) {
		return tokens[i]
	}
	return ""
}
