package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

func TestL1OneSlowSendStrandsNobody(t *testing.T) {
	r := newRig(t)
	c := on(visible)
	c.contract.AttemptTimeout = 5 * time.Second
	c.send = func(ctx ctx, a channels.Attempt) channels.Outcome {
		if strings.Contains(string(a.Rendered), "slow") {
			<-ctx.Done() // its own time is up
			return lost()
		}
		return accepted()
	}
	r.dispatcher(c.as("mail", func(s *channels.Settings) { s.Concurrency = 4 }))
	for n := range 20 {
		q := ask(fmt.Sprintf("mail:%d", n))
		if n == 3 {
			q = q.with("content", map[string]any{"text": "slow"})
		}
		r.publish(wire.RequestSubject("shop", "mail"), q.bytes())
	}
	r.quiet()
	if n := r.count(`select count(*) from intents where state = 'succeeded'`); n != 19 {
		t.Errorf("%d succeeded, want 19", n)
	}
	r.reaches(identity("shop", "mail", "mail:3"), intents.UnknownState)
	for _, line := range strings.Split(r.logs.String(), "\n") {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "settled") && !strings.Contains(line, "intent=") {
			t.Errorf("a log line without the intent's id: %s", line)
		}
	}
}

func TestL1DrainBetweenClaimAndSendHandsBack(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	c := on(keyed)
	c.send = gate.hold(accepted)
	d := r.dispatcher(c.as("hooks", func(s *channels.Settings) { s.Concurrency = 1 }))
	for n := range 4 { // one is sent, the others are claimed at admission and wait for the sender
		r.submit("shop", "hooks", ask(fmt.Sprintf("hook:%d", n)))
	}
	<-gate.begun
	r.until("claims waiting", func() bool { return r.count(`select count(*) from intents where state = 'sending'`) == 4 })
	done := make(chan struct{})
	go func() { r.drain(d); close(done) }()
	r.until("claims handed back", func() bool { return r.count(`select count(*) from intents where state = 'pending'`) == 3 })
	if n := r.count(`select count(*) from attempts`); n != 0 {
		t.Errorf("%d attempts on record for claims that were not used", n)
	}
	close(gate.open)
	<-done
	if n := r.count(`select count(*) from intents where state = 'sending'`); n != 0 {
		t.Errorf("%d intents are still SENDING after the drain", n)
	}
	if n := r.count(`select count(*) from intents where state = 'succeeded'`); n != 1 {
		t.Errorf("%d succeeded, want the one that was on the wire", n)
	}
	other := on(keyed)
	r.dispatcher(other.as("hooks"))
	r.quiet()
	if other.count() != 3 {
		t.Errorf("%d sends by the next dispatcher, want 3", other.count())
	}
}

func TestDrainCutsASendThatOutlastsTheGracePeriod(t *testing.T) {
	r := newRig(t)
	c := on(visible)
	c.contract.AttemptTimeout = time.Minute
	begun := make(chan struct{})
	c.send = func(ctx ctx, _ channels.Attempt) channels.Outcome {
		close(begun)
		<-ctx.Done()
		return lost()
	}
	cfg := r.config(r.store, c.as("mail"))
	cfg.Grace = 200 * time.Millisecond
	d := r.start(cfg)
	r.publish(wire.RequestSubject("shop", "mail"), ask("mail:1").bytes())
	<-begun
	r.drain(d)
	if i, _ := r.find(identity("shop", "mail", "mail:1")); i.State != intents.UnknownState {
		t.Errorf("the cut send is %s, want unknown", i.State)
	}
}

func TestPanicInAnAdapterIsAnUnknownOutcomeOfThatIntentAlone(t *testing.T) {
	r := newRig(t)
	c := on(visible)
	c.send = func(_ ctx, a channels.Attempt) channels.Outcome {
		if strings.Contains(string(a.Rendered), "boom") {
			panic("sending to " + a.Recipient)
		}
		return accepted()
	}
	d := r.dispatcher(c.as("mail"))
	for n := range 8 { // more than the breaker would bear from a sick provider
		r.submit("shop", "mail", ask(fmt.Sprintf("boom:%d", n)).with("content", map[string]any{"text": "boom"}))
		r.submit("shop", "mail", ask(fmt.Sprintf("good:%d", n)))
	}
	r.quiet()
	for n := range 8 {
		if i := r.reaches(identity("shop", "mail", fmt.Sprintf("boom:%d", n)), intents.UnknownState); i.Code != "panic" || !i.Doubt {
			t.Errorf("the panic is not on record: %+v", i)
		}
		r.reaches(identity("shop", "mail", fmt.Sprintf("good:%d", n)), intents.Succeeded)
	}
	if got := d.metric(t, "attempts_total", "unknown", "committed"); got != 8 {
		t.Errorf("unknown attempts %v, want 8", got)
	}
	if strings.Contains(r.logs.String(), "ada@example.org") {
		t.Error("the panic's value is in the log")
	}
}

func TestB4FailuresAreBoundedAndSpacedOut(t *testing.T) {
	r := newRig(t)
	dead, alive := on(keyed), on(keyed)
	dead.send = func(ctx, channels.Attempt) channels.Outcome { return busy() }
	r.dispatcher(dead.as("dead", func(s *channels.Settings) { s.MaxAttempts = 3 }), alive.as("alive"))
	r.submit("shop", "dead", ask("note:1"))
	r.submit("shop", "alive", ask("note:1"))
	r.reaches(identity("shop", "alive", "note:1"), intents.Succeeded)
	i := r.reaches(identity("shop", "dead", "note:1"), intents.Exhausted)
	if i.Attempts != 3 || dead.count() != 3 || r.count(`select count(*) from attempts where intent_id = $1`, i.ID) != 3 {
		t.Errorf("%d attempts, %d sends: want 3 of each, all on record", i.Attempts, dead.count())
	}
	sends := dead.all()
	first, second := sends[1].at.Sub(sends[0].at), sends[2].at.Sub(sends[1].at)
	if first < 450*time.Millisecond || second < 950*time.Millisecond { // half of 1 s and of 2 s at least
		t.Errorf("the pauses %v and %v do not grow", first, second)
	}
	if alive.count() != 1 {
		t.Errorf("the healthy channel sent %d times", alive.count())
	}
}

func TestB4ThrottledWaitsAsLongAsAskedElseByItsOwnBackoff(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	tries := map[string]int{}
	c.send = func(_ ctx, a channels.Attempt) channels.Outcome {
		c.mu.Lock()
		defer c.mu.Unlock()
		if tries[a.EffectKey]++; tries[a.EffectKey] > 1 {
			return accepted()
		}
		if strings.Contains(string(a.Rendered), "wait") {
			return channels.OutcomeThrottled(2*time.Second, "429", "slow down")
		}
		return channels.OutcomeThrottled(0, "429", "slow down")
	}
	r.dispatcher(c.as("hooks"))
	r.submit("shop", "hooks", ask("note:1").with("content", map[string]any{"text": "wait"}))
	r.submit("shop", "hooks", ask("note:2"))
	r.quiet()
	at := map[bool][]time.Time{}
	for _, s := range c.all() {
		asked := strings.Contains(string(s.Rendered), "wait")
		at[asked] = append(at[asked], s.at)
	}
	if d := at[true][1].Sub(at[true][0]); d < 2*time.Second {
		t.Errorf("asked to wait 2 s, came again after %v", d)
	}
	if d := at[false][1].Sub(at[false][0]); d < 450*time.Millisecond {
		t.Errorf("the own back-off was %v, want about a second", d)
	}
}

func TestB4FinalRefusalIsNotRepeated(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	c.send = func(ctx, channels.Attempt) channels.Outcome { return channels.OutcomeDeadRecipient("410", "gone") }
	r.dispatcher(c.as("hooks"))
	for n := range 10 { // more than the breaker would bear from a sick provider
		r.submit("shop", "hooks", ask(fmt.Sprintf("note:%d", n)))
	}
	r.quiet()
	if i := r.reaches(identity("shop", "hooks", "note:9"), intents.Rejected); !i.DeadRecipient || c.count() != 10 {
		t.Errorf("%d sends, want 10; %+v", c.count(), i)
	}
}

func TestSlowChannelDoesNotSlowAnother(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	defer close(gate.open)
	slow, quick := on(keyed), on(keyed)
	slow.send = gate.hold(accepted)
	r.dispatcher(slow.as("slow", func(s *channels.Settings) { s.Concurrency = 2 }), quick.as("quick"))
	for n := range 300 {
		r.publish(wire.RequestSubject("shop", "slow"), ask(fmt.Sprintf("note:%d", n)).bytes())
	}
	for n := range 50 {
		r.publish(wire.RequestSubject("shop", "quick"), ask(fmt.Sprintf("note:%d", n)).bytes())
	}
	// While the slow one is held by its gateway.
	r.until("the quick ones settled", func() bool {
		return r.count(`select count(*) from intents where channel = 'quick' and state = 'succeeded'`) == 50
	})
	if n, ended := slow.count(), r.count(`select count(*) from intents where channel = 'slow' and state not in ('pending', 'sending')`); n != 2 || ended != 0 {
		t.Errorf("%d sends on the slow channel, %d of its intents ended; want its 2 senders, and none", n, ended)
	}
}
