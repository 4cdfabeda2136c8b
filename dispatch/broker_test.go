package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/migrations/pgtest"
)

func TestL2BrokerLosesRequestsThatItAcknowledged(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	c := on(visible)
	c.send = gate.hold(accepted)
	if err := dispatch.EnsureStreams(bg, r.js, true); err != nil {
		t.Fatal(err)
	}
	r.publish(wire.RequestSubject("shop", "mail"), ask("lost:1").bytes())
	if err := r.js.DeleteStream(bg, wire.RequestStream); err != nil { // before anybody admitted it
		t.Fatal(err)
	}
	d := r.dispatcher(c.as("mail"))
	r.publish(wire.RequestSubject("shop", "mail"), ask("lost:1").bytes())
	<-gate.begun
	r.until("the repeat of a lost request accepted", func() bool { return d.metric(t, "requests_total", "accepted") == 1 })
	r.until("that acknowledged", func() bool { return r.pending() == 0 })
	r.wipe() // admitted, not sent yet
	close(gate.open)
	r.reaches(identity("shop", "mail", "lost:1"), intents.Succeeded)
	r.publish(wire.RequestSubject("shop", "mail"), ask("lost:1").bytes())
	r.until("the repeat answered", func() bool { return d.metric(t, "requests_total", "duplicate") >= 1 })
	if c.count() != 1 {
		t.Errorf("%d sends, want 1", c.count())
	}
}

func TestL3SettingsThatLoseRequestsAreRefusedAtStart(t *testing.T) {
	r := newRig(t)
	stream := dispatch.RequestStream()
	stream.DenyPurge, stream.Discard, stream.Duplicates = false, jetstream.DiscardOld, 2*time.Minute
	if _, err := r.js.CreateStream(bg, stream); err != nil {
		t.Fatal(err)
	}
	consumer := dispatch.RequestConsumer()
	consumer.MaxDeliver, consumer.AckWait, consumer.BackOff = 5, time.Minute, []time.Duration{3 * time.Second, 10 * time.Second}
	if _, err := r.js.CreateConsumer(bg, wire.RequestStream, consumer); err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(r.config(r.store, on(keyed).as("hooks")))
	if err != nil {
		t.Fatal(err)
	}
	var settings *dispatch.SettingsError
	if err := d.Start(bg); !errors.As(err, &settings) {
		t.Fatalf("start: %v, want the settings listed", err)
	}
	var names []string
	for _, diff := range settings.Differences {
		names = append(names, diff.Setting)
		if diff.Fix == "" || diff.Have == diff.Want {
			t.Errorf("a difference without a remedy: %v", diff)
		}
	}
	// The back-off's first entry has silently replaced the minute of ack_wait.
	if got, want := strings.Join(names, " "), "discard duplicate_window deny_purge ack_wait max_deliver backoff"; got != want {
		t.Errorf("differences %q, want %q", got, want)
	}
	if !strings.Contains(settings.Error(), "ack_wait is 3s, needs 30s") {
		t.Errorf("the error does not say what is and what should be: %v", settings)
	}
}

func TestMissingStreamsAreCreatedOnlyWhereAllowed(t *testing.T) {
	r := newRig(t)
	cfg := r.config(r.store, on(keyed).as("hooks"))
	cfg.CreateStreams = false
	d, err := dispatch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var settings *dispatch.SettingsError
	if err := d.Start(bg); !errors.As(err, &settings) || len(settings.Differences) != 2 {
		t.Fatalf("start without streams: %v, want both streams missing", err)
	}
	if err := dispatch.EnsureStreams(bg, r.js, true); err != nil {
		t.Fatal(err)
	}
	if diffs, err := dispatch.CompareStreams(bg, r.js); err != nil || len(diffs) != 0 {
		t.Fatalf("what was created differs from what is needed: %v, %v", diffs, err)
	}
}

func TestL3OutageOfTheDatabaseIsNotTheMessagesFault(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	w := pgtest.Proxy(t, url)
	r := newRigOn(t, natstest.Start(t).URL(), url)
	c := on(keyed)
	d := r.start(r.config(r.open(w.URL()), c.as("hooks")))
	w.Refuse(true)
	for n := range 20 {
		r.publish(wire.RequestSubject("shop", "hooks"), ask(fmt.Sprintf("receipt:%d", n)).bytes())
	}
	r.until("readiness to tell", func() bool { return len(d.Ready()) > 0 })
	time.Sleep(2 * time.Second) // the outage
	w.Refuse(false)
	r.until("all sent", func() bool { return c.count() == 20 })
	r.quiet()
	for key, n := range c.effects() {
		if n != 1 {
			t.Errorf("effect %s was sent %d times", key, n)
		}
	}
	r.until("readiness back", func() bool { return len(d.Ready()) == 0 })
	if len(r.refusals()) != 0 {
		t.Errorf("refusals %v, want none", r.refusals())
	}
}

func TestSubmitSaysUnavailableWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	w := pgtest.Proxy(t, url)
	r := newRigOn(t, natstest.Start(t).URL(), url)
	r.start(r.config(r.open(w.URL()), on(keyed).as("hooks")))
	w.Refuse(true)
	for subject, payload := range map[string][]byte{
		wire.SubmitSubject("shop", "hooks"): ask("receipt:1").bytes(),
		wire.StatusSubject("shop"):          wire.Ref{Channel: "hooks", Key: "receipt:1"}.Encode(),
		wire.CancelSubject("shop"):          wire.Ref{Channel: "hooks", Key: "receipt:1"}.Encode(),
	} {
		msg, err := r.nc.Request(subject, payload, patience)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		if _, err := wire.DecodeReply(msg.Data); err == nil || err.(*wire.Refusal).Code != wire.CodeUnavailable {
			t.Errorf("%s: %s", subject, msg.Data)
		}
	}
	w.Refuse(false)
	r.until("submitting again", func() bool {
		msg, err := r.nc.Request(wire.SubmitSubject("shop", "hooks"), ask("receipt:1").bytes(), patience)
		if err != nil {
			return false
		}
		reply, err := wire.DecodeReply(msg.Data)
		return err == nil && (reply.Verdict == wire.Accepted || reply.Verdict == wire.Duplicate)
	})
}

func TestS3ConsumerDeletedFromOutside(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	d := r.dispatcher(c.as("hooks"))
	r.until("consuming", func() bool { return len(d.Ready()) == 0 })
	if err := r.js.DeleteConsumer(bg, wire.RequestStream, dispatch.RequestConsumerName); err != nil {
		t.Fatal(err)
	}
	r.publish(wire.RequestSubject("shop", "hooks"), ask("receipt:1").bytes())
	r.reaches(identity("shop", "hooks", "receipt:1"), intents.Succeeded)
	if d.metric(t, "consumer_restarts_total") == 0 || !strings.Contains(r.logs.String(), "the consumer was lost") {
		t.Error("nobody was told that the consumer was gone")
	}
}

func TestS3BrokerRestarted(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t)
	r := newRigOn(t, broker.URL(), pgtest.New(t))
	c := on(keyed)
	d := r.dispatcher(c.as("hooks"))
	r.publish(wire.RequestSubject("shop", "hooks"), ask("receipt:1").bytes())
	r.quiet() // what is on its way when a broker dies comes again after AckWait, half a minute
	broker.Shutdown()
	r.until("readiness to tell", func() bool { return len(d.Ready()) > 0 })
	broker.Restart(t)
	r.until("the producer connected", r.nc.IsConnected)
	r.publish(wire.RequestSubject("shop", "hooks"), ask("receipt:2").bytes())
	for _, key := range []string{"receipt:1", "receipt:2"} {
		r.reaches(identity("shop", "hooks", key), intents.Succeeded)
	}
	r.until("readiness back", func() bool { return len(d.Ready()) == 0 })
	r.quiet()
}

func TestS3BrokerFrozen(t *testing.T) {
	t.Parallel()
	broker := natstest.StartProcess(t)
	r := newRigOn(t, broker.URL(), pgtest.New(t))
	c := on(keyed)
	d := r.dispatcher(c.as("hooks"))
	r.until("consuming", func() bool { return len(d.Ready()) == 0 })
	broker.Freeze(t)
	r.until("readiness to tell", func() bool { return len(d.Ready()) > 0 })
	broker.Thaw(t)
	r.publish(wire.RequestSubject("shop", "hooks"), ask("receipt:1").bytes())
	r.reaches(identity("shop", "hooks", "receipt:1"), intents.Succeeded)
	r.until("readiness back", func() bool { return len(d.Ready()) == 0 })
}

func TestO3UnknownChannelIsLeftToThoseWhoKnowIt(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	defer close(gate.open)
	push, hooks := on(visible), on(keyed)
	push.send = gate.hold(accepted)
	full := r.dispatcher(push.as("push"), hooks.as("hooks"))
	r.publish(wire.RequestSubject("shop", "push"), ask("note:1").bytes())
	<-gate.begun
	r.crash(full)
	// Its lease ends; and something is due that only the other one could send.
	if _, err := r.db.Exec(bg, `update intents set lease_until = now() - interval '1 s'; update agenda set at = now() - interval '1 s'`); err != nil {
		t.Fatal(err)
	}
	d := r.dispatcher(on(keyed).as("hooks"))
	r.publish(wire.RequestSubject("shop", "hooks"), ask("note:2").bytes())
	r.reaches(identity("shop", "hooks", "note:2"), intents.Succeeded)
	d.patrolled()
	if i := r.reaches(identity("shop", "push", "note:1"), intents.Sending); i.Generation != 1 {
		t.Errorf("an intent of an unknown channel was touched: %+v", i)
	}
	if reply := r.submit("shop", "push", ask("note:3")); reply.Code != wire.CodeChannelUnknown {
		t.Errorf("a channel that nobody who runs knows: %+v", reply)
	}
	r.dispatcher(on(visible).as("push"), on(keyed).as("hooks"))
	r.reaches(identity("shop", "push", "note:1"), intents.UnknownState)
}
