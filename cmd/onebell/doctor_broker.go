package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/wire"
)

func examineBroker(ctx context.Context, app *App, r *report) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	nc, err := connectBroker(app.cfg, dispatcherUser, app.log, nil)
	if err != nil {
		r.problem("broker", "%v", err)
		return
	}
	defer closeBroker(nc)
	r.ok("broker", "version %s at %s", nc.ConnectedServerVersion(), hosts(app.cfg.NatsURL.value))
	if !examinePermissions(nc, r) { // what else is denied is not answered at all
		ctx, cancel = context.WithTimeout(ctx, deniedLimit)
		defer cancel()
	}
	js, err := jetstream.New(nc)
	if err != nil {
		r.problem("streams", "%v", err)
		return
	}
	differences, err := dispatch.CompareStreams(ctx, js)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		r.problem("streams", "JetStream is off for this account; turn it on (deploy/nats-server.conf shows how)")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		r.problem("streams", "the broker does not answer questions about the streams; this user may lack the permission for $JS.API.STREAM.INFO (deploy/nats-server.conf shows what is needed)")
	case err != nil:
		r.problem("streams", "%v", err)
	case len(differences) == 0:
		r.ok("streams", "streams and consumer are set as needed")
	}
	for _, d := range differences {
		if d.Setting == "" {
			r.warn("streams", "%s is missing; serve creates it at its first start", d.Object)
		} else {
			r.problem("streams", "%s", d)
		}
	}
}

// deniedLimit bounds the questions of a user that is denied something, and the wait for the server's complaints.
const deniedLimit = 5 * time.Second

// examinePermissions tries what can be tried without a trace: listening for a moment, and messages that nobody takes. It reports whether
// all of that is allowed.
func examinePermissions(nc *nats.Conn, r *report) (allowed bool) {
	denied := make(chan error, 16)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case denied <- err:
		default: // more than there is room for says nothing new
		}
	})
	defer nc.SetErrorHandler(nil)
	for _, subject := range []string{wire.SubmitSubjects, wire.StatusSubjects, wire.CancelSubjects} {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			r.problem("permissions", "subscribing to %s: %v", subject, err)
			return false
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	for _, subject := range []string{"$JS.ACK." + wire.RequestStream + "." + dispatch.RequestConsumerName + ".doctor", inboxPrefix("doctor") + ".check"} {
		if err := nc.Publish(subject, nil); err != nil {
			r.problem("permissions", "publishing on %s: %v", subject, err)
			return false
		}
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		r.problem("permissions", "the broker did not answer: %v", err)
		return false
	}
	// The server's complaints come before its answer to the flush, which leaves the last of them on the connection; the handler hears them
	// through a queue of the client.
	allowed = !errors.Is(nc.LastError(), nats.ErrPermissionViolation)
	for wait := map[bool]time.Duration{true: 0, false: deniedLimit}[allowed]; ; wait = 200 * time.Millisecond {
		select {
		case err := <-denied:
			r.problem("permissions", "%s; give this user what deploy/nats-server.conf gives to the dispatcher", strings.TrimPrefix(err.Error(), "nats: "))
		case <-time.After(wait):
			if allowed {
				r.ok("permissions", "this user may do what a dispatcher does")
			}
			return allowed
		}
	}
}
