package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/migrations/pgtest"
)

// heard reads the event stream from its beginning until it holds n events.
func (r *rig) heard(n int) []wire.Event {
	r.t.Helper()
	r.until(fmt.Sprint(n, " events on the broker"), func() bool { return r.events() >= n })
	consumer, err := r.js.OrderedConsumer(bg, wire.EventStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		r.t.Fatal(err)
	}
	batch, err := consumer.Fetch(r.events(), jetstream.FetchMaxWait(patience))
	if err != nil {
		r.t.Fatal(err)
	}
	var out []wire.Event
	for msg := range batch.Messages() {
		e, err := wire.DecodeEvent(msg.Data())
		if err != nil {
			r.t.Fatal(err)
		}
		if want := wire.EventSubject(e.Caller, e.Channel, e.What); msg.Subject() != want && e.Caller != "" {
			r.t.Errorf("event on %s, want %s", msg.Subject(), want)
		}
		if msg.Headers().Get("Nats-Msg-Id") != e.ID {
			r.t.Errorf("the event's id %s is not the message's", e.ID)
		}
		out = append(out, e)
	}
	return out
}

func TestEventsTellEveryEnd(t *testing.T) {
	r := newRig(t)
	c := on(visible)
	c.send = func(_ ctx, a channels.Attempt) channels.Outcome {
		switch {
		case strings.Contains(string(a.Rendered), "dead"):
			return channels.OutcomeDeadRecipient("410", "gone")
		case strings.Contains(string(a.Rendered), "lose"):
			return lost()
		}
		return accepted()
	}
	r.dispatcher(c.as("mail"))
	text := func(key, text string) request { return ask(key).with("content", map[string]any{"text": text}) }
	r.submit("shop", "mail", ask("ok:1"))
	r.submit("shop", "mail", text("dead:1", "dead"))
	r.submit("shop", "mail", text("lose:1", "lose"))
	r.submit("shop", "mail", text("ok:1", "another meaning"))
	r.publish("onebell.request.shop.mail", []byte(`{"key":`))
	r.publish("onebell.request.Shop!.mail", ask("subject:1").bytes())
	got := map[string]wire.Event{}
	for _, e := range r.heard(6) {
		got[e.Key+" "+string(e.What)+" "+e.Code] = e
	}
	for name, check := range map[string]func(wire.Event) bool{
		"ok:1 succeeded 200": func(e wire.Event) bool {
			return e.Admitted && e.ProviderID == "p-1" && e.Intent != "" && e.Message == ""
		},
		"dead:1 rejected 410":        func(e wire.Event) bool { return e.Admitted && e.DeadRecipient },
		"lose:1 unknown reply-lost":  func(e wire.Event) bool { return e.Admitted },
		"ok:1 conflict key_conflict": func(e wire.Event) bool { return !e.Admitted && e.Intent != "" && e.Message != "" && e.StreamSeq == 0 },
		" refused json_invalid": func(e wire.Event) bool {
			return !e.Admitted && e.Caller == "shop" && e.Channel == "mail" && e.Message != "" && e.StreamSeq == 1
		},
		" refused caller_invalid": func(e wire.Event) bool { return !e.Admitted },
	} {
		if e, ok := got[name]; !ok || !check(e) {
			t.Errorf("%s: %v %+v", name, ok, e)
		}
	}
}

func TestEventsWaitForTheBrokerAndStayInOrder(t *testing.T) {
	r := newRig(t)
	c := on(visible)
	c.send = func(ctx, channels.Attempt) channels.Outcome { return lost() }
	d := r.dispatcher(c.as("mail"))
	narrow := dispatch.EventStream()
	narrow.Subjects = []string{wire.EventSubject("*", "*", wire.WhatSucceeded)} // "unknown" has no place to go
	if _, err := r.js.UpdateStream(bg, narrow); err != nil {
		t.Fatal(err)
	}
	r.submit("shop", "mail", ask("note:1"))
	i := r.reaches(identity("shop", "mail", "note:1"), intents.UnknownState)
	r.until("the relay to fail", func() bool { return d.metric(t, "relay_errors_total") > 0 })
	if n := r.count(`select count(*) from outbox`); n != 1 {
		t.Fatalf("%d rows in the outbox, want the one that could not be published", n)
	}
	// A later event of the same intent must not overtake it: evidence has settled the intent meanwhile.
	if _, err := r.store.Witness(bg, intents.Settlement{ID: i.ID, Generation: i.Generation, Owner: d.Owner(), Outcome: accepted()}); err != nil {
		t.Fatal(err)
	}
	r.reaches(identity("shop", "mail", "note:1"), intents.Succeeded)
	failed := d.metric(t, "relay_errors_total")
	r.until("another round", func() bool { return d.metric(t, "relay_errors_total") > failed })
	if _, err := r.js.UpdateStream(bg, dispatch.EventStream()); err != nil {
		t.Fatal(err)
	}
	events := r.heard(2)
	if len(events) != 2 || events[0].What != wire.WhatUnknown || events[1].What != wire.WhatSucceeded || events[0].ID == events[1].ID {
		t.Errorf("events %+v", events)
	}
	r.until("an empty outbox", func() bool { return r.count(`select count(*) from outbox`) == 0 })
}

func TestRelayDutyPassesOn(t *testing.T) {
	r := newRig(t)
	first := r.dispatcher(on(keyed).as("hooks"))
	r.until("the first on duty", func() bool { return r.count(`select count(*) from duties where owner = $1`, first.Owner()) == 1 })
	second := r.dispatcher(on(keyed).as("hooks"))
	r.submit("shop", "hooks", ask("note:1"))
	r.heard(1)
	r.drain(first) // gives the duty up, so that nobody waits for its lease
	r.submit("shop", "hooks", ask("note:2"))
	if events := r.heard(2); len(events) != 2 {
		t.Errorf("%d events, want 2", len(events))
	}
	if n := r.count(`select count(*) from duties where owner = $1`, second.Owner()); n != 1 {
		t.Error("the second is not on duty")
	}
}

func TestDrainUnderLoadLeavesNothingOpen(t *testing.T) {
	r := newRig(t)
	hooks, mail := on(keyed), on(visible)
	slow := func(x ctx, _ channels.Attempt) channels.Outcome {
		time.Sleep(2 * time.Millisecond) // a provider's time
		return accepted()
	}
	hooks.send, mail.send = slow, slow
	first := r.dispatcher(hooks.as("hooks"), mail.as("mail"))
	for n := range 400 {
		r.publish(wire.RequestSubject("shop", []string{"hooks", "mail"}[n%2]), ask(fmt.Sprintf("note:%d", n)).bytes())
		if n == 200 {
			go r.drain(first)
		}
	}
	r.until("the first gone", func() bool { return strings.Contains(r.logs.String(), "dispatcher left") })
	if n := r.count(`select count(*) from intents where state = 'sending' or state = 'unknown'`); n != 0 {
		t.Errorf("%d intents are SENDING or UNKNOWN after the drain", n)
	}
	if n := r.count(`select count(*) from claim_batches`); n != 0 {
		t.Errorf("%d claim batches are left", n)
	}
	r.dispatcher(hooks.as("hooks"), mail.as("mail"))
	r.quiet()
	for _, c := range []*scripted{hooks, mail} {
		if len(c.effects()) != 200 || c.count() != 200 {
			t.Errorf("%d effects by %d sends, want 200", len(c.effects()), c.count())
		}
	}
}

func TestR2NoGoroutineStaysBehind(t *testing.T) {
	// Not parallel: it counts the goroutines of the process.
	r := newRigOn(t, natstest.Start(t).URL(), pgtest.New(t))
	base := stacks("dispatch.(*")
	d := r.dispatcher(on(keyed).as("hooks"), on(visible).as("mail"))
	for n := range 50 {
		r.publish(wire.RequestSubject("shop", "mail"), ask(fmt.Sprintf("note:%d", n)).bytes())
	}
	r.quiet()
	if stacks("dispatch.(*") <= base {
		t.Fatal("the running dispatcher has no goroutines: the test looks for the wrong thing")
	}
	r.drain(d)
	r.until("every goroutine ended", func() bool { return stacks("dispatch.(*") <= base })
}

func TestDrainFinishesAClaimThatIsBeingMade(t *testing.T) {
	c := on(visible)
	r, w, d := behind(t, c.as("mail"))
	r.submit("shop", "mail", ask("mail:1").with("not_before", time.Now().Add(time.Hour).Format(time.RFC3339)))
	r.until("the claim of the start over: it found nothing", func() bool { return d.looks.claims.Load() >= 1 })
	hit := w.Arm(pgtest.HoldReply, "-- claim:")
	if _, err := r.db.Exec(bg, `update agenda set at = now()`); err != nil {
		t.Fatal(err)
	}
	hit.Wait(t)
	if i, _ := r.find(identity("shop", "mail", "mail:1")); i.State != intents.Sending {
		t.Fatalf("%s, want it claimed without the dispatcher's knowing", i.State)
	}
	done := make(chan struct{})
	go func() { r.drain(d); close(done) }()
	r.until("claiming ended", func() bool { return strings.Contains(r.logs.String(), "nothing more is claimed") })
	hit.Release() // until now the claim has waited for its reply
	<-done
	if i, _ := r.find(identity("shop", "mail", "mail:1")); i.State != intents.Pending || c.count() != 0 {
		t.Errorf("%s after %d sends, want the claim handed back", i.State, c.count())
	}
}
