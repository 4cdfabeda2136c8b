package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

// Errors to be tested with errors.Is. A malformed request is a *wire.Refusal; it was not sent.
var (
	// ErrPermission: the server does not let this user use the subject. The message was dropped. See PermissionError.
	ErrPermission = errors.New("permission denied by the NATS server")
	// ErrNoStream: no stream takes requests on that subject. The request was not stored.
	ErrNoStream = errors.New("no stream takes requests")
	// ErrNoDispatcher: nobody answers on that subject. It does not say that nothing was published earlier.
	ErrNoDispatcher = errors.New("no dispatcher answers")
	// ErrNoAnswer: time ran out, or the connection broke, before the answer. What was asked may or may not have happened; call again.
	ErrNoAnswer = errors.New("no answer in time")
	// ErrNotProven: the broker says that it stored such a message before. Whether that was this request is not known; call again.
	ErrNotProven = errors.New("not proven to be stored")
	// ErrUnavailable: the dispatcher answers that it cannot act at the moment; call again later.
	ErrUnavailable = errors.New("the dispatcher cannot act at the moment")
	// ErrNotFound: there is no intent of this caller with that channel, key and revision. A request that was published a moment ago may
	// not have been admitted yet; a refused one never becomes an intent.
	ErrNotFound = errors.New("no such intent")
)

// PermissionError names the subject that the server's permissions deny. It is an ErrPermission.
type PermissionError struct {
	Subject string
	Inbox   bool // the answers' inbox is denied, not the question
}

func (e *PermissionError) Error() string {
	if e.Inbox {
		return fmt.Sprintf("the NATS server does not let this user subscribe to its inbox %q; allow it, or set Options.InboxPrefix to the one that is allowed", e.Subject)
	}
	return fmt.Sprintf("the NATS server does not let this user use %q; its permissions bind a user to one caller name: check user and caller", e.Subject)
}

// Is makes a PermissionError an ErrPermission.
func (e *PermissionError) Is(target error) bool { return target == ErrPermission }

// explain turns what nats.go says of a call on subject into the errors above.
func explain(ctx context.Context, subject string, err error) error {
	var denied *PermissionError
	switch {
	case errors.As(context.Cause(ctx), &denied):
		return denied
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w on %q: is onebell serve running against this server and account?", ErrNoStream, subject)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w on %q: is onebell serve running against this server and account?", ErrNoDispatcher, subject)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.Canceled), errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w on %q: whether it took effect is not known; call again with the same arguments: %w", ErrNoAnswer, subject, err)
	}
	return fmt.Errorf("%q: %w", subject, err)
}

// understand turns an error reply into the errors above.
func understand(err error) error {
	var r *wire.Refusal
	if !errors.As(err, &r) {
		return err
	}
	switch r.Code {
	case wire.CodeNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, r)
	case wire.CodeUnavailable:
		return fmt.Errorf("%w: %w", ErrUnavailable, r)
	}
	return err
}
