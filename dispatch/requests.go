package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

const (
	queueGroup   = "onebell"
	deskPatience = 3 * time.Second
)

// subscribe begins to answer submit, status and cancel. One dispatcher of all answers each question. When it returns, the broker knows.
func (in *intake) subscribe(ctx context.Context) error {
	for subject, handle := range map[string]nats.MsgHandler{
		wire.SubmitSubjects: in.submit,
		wire.StatusSubjects: func(msg *nats.Msg) { in.ask(msg, in.status) },
		wire.CancelSubjects: func(msg *nats.Msg) { in.ask(msg, in.cancel) },
	} {
		sub, err := in.nc.QueueSubscribe(subject, queueGroup, handle)
		if err != nil {
			return err
		}
		context.AfterFunc(in.stage.ctx, func() { _ = sub.Drain() }) // fails only when the connection is gone, and the subscription with it
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout) // the flush wants a deadline
	defer cancel()
	flush, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return in.nc.FlushWithContext(flush)
}

// question is a submit request: a letter that waits for its reply.
type question struct {
	msg *nats.Msg
	in  *intake
}

func (q question) answer(r wire.Reply) { q.in.respond(q.msg, r.Encode()) }

func (q question) postpone() { q.in.respond(q.msg, wire.EncodeError(errUnavailable)) }

var errUnavailable = &wire.Refusal{
	Code:    wire.CodeUnavailable,
	Message: "the service could not answer in time, and it is not known whether the request was taken; send it again with the same key, it is safe",
}

// submit takes a request in that waits for its verdict. It goes through the same admission as those of the stream.
func (in *intake) submit(msg *nats.Msg) {
	l := letter{
		subject: msg.Subject, data: msg.Data, header: msg.Header, tries: 1, refusal: uuid.New(),
		expires: time.Now().Add(submitExpiry), back: question{msg: msg, in: in},
	}
	if in.stage.ctx.Err() != nil {
		l.back.postpone()
		return
	}
	if !in.submitRoom.tryEnter(&l) { // so many wait that this one would not be answered in time
		l.back.postpone()
		return
	}
	select {
	case in.submits <- l:
	default:
		l.back.postpone()
	}
}

func (in *intake) respond(msg *nats.Msg, data []byte) {
	if msg.Reply == "" {
		return
	}
	if err := msg.Respond(data); err != nil {
		in.log.Debug("a reply was not sent", "error", err)
	}
}

// ask answers a question about an intent, a bounded number at a time.
func (in *intake) ask(msg *nats.Msg, handle func(context.Context, dedup.Identity) ([]byte, error)) {
	in.desk <- struct{}{}
	go func() {
		defer func() { <-in.desk }()
		in.respond(msg, in.reply(msg, handle))
	}()
}

func (in *intake) reply(msg *nats.Msg, handle func(context.Context, dedup.Identity) ([]byte, error)) []byte {
	id, err := reference(msg)
	if err != nil {
		return wire.EncodeError(in.explain(err))
	}
	ctx, cancel := context.WithTimeout(in.writes, deskPatience)
	defer cancel()
	reply, err := handle(ctx, id)
	var said *wire.Refusal
	switch {
	case err == nil:
		return reply
	case errors.As(err, &said):
		return wire.EncodeError(said)
	}
	in.report("ask", err)
	return wire.EncodeError(errUnavailable)
}

// reference names the intent that is asked for: the caller comes from the subject, so that nobody reaches another's.
func reference(msg *nats.Msg) (dedup.Identity, error) {
	route, err := wire.ParseSubject(msg.Subject)
	if err != nil {
		return dedup.Identity{}, err
	}
	ref, err := wire.DecodeRef(msg.Data)
	return dedup.Identity{Caller: route.Caller, Channel: ref.Channel, Key: ref.Key, Revision: ref.Revision}, err
}

func (in *intake) status(ctx context.Context, id dedup.Identity) ([]byte, error) {
	intent, found, err := in.store.FindByIdentity(ctx, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &wire.Refusal{
			Code:    wire.CodeNotFound,
			Message: "there is no such intent of this caller; it was never admitted, or it was forgotten after its time",
		}
	}
	return statusOf(intent).Encode(), nil
}

func (in *intake) cancel(ctx context.Context, id dedup.Identity) ([]byte, error) {
	intent, found, cancelled, err := in.store.Cancel(ctx, id, id.Caller)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return wire.Cancelled{Result: wire.CancelNotFound, Message: "there is no such intent of this caller"}.Encode(), nil
	case !cancelled:
		return wire.Cancelled{
			Result: wire.CancelTooLate, Intent: name(intent.ID), State: string(intent.State),
			Message: "it cannot be called back any more",
		}.Encode(), nil
	}
	in.relay.bell.ring()
	return wire.Cancelled{Result: wire.CancelDone, Intent: name(intent.ID), State: string(intent.State), Message: "it will not be sent"}.Encode(), nil
}

func statusOf(i intents.Intent) wire.Status {
	return wire.Status{
		Intent: name(i.ID), Channel: i.Identity.Channel, Key: string(i.Identity.Key), Revision: i.Identity.Revision,
		State: string(i.State), Guarantee: string(i.Guarantee), Attempts: i.Attempts, PossibleDuplicates: i.PossibleDuplicates,
		OccurredAt: i.OccurredAt, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, NotBefore: some(i.NotBefore), ExpiresAt: some(i.ExpiresAt),
		NextAttemptAt: some(i.NextAttemptAt), ProviderID: i.ProviderID, Code: i.Code, Message: i.Message, DeadRecipient: i.DeadRecipient,
	}
}

// some returns nil for the zero time.
func some(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
