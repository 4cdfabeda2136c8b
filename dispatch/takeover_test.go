package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// lapse ends every lease that stands.
func (r *rig) lapse() {
	r.t.Helper()
	for _, sql := range []string{
		`update intents set lease_until = now() - interval '1 s' where state = 'sending'`,
		`update agenda set at = now() - interval '1 s' where kind = 'leased'`,
		`update claim_batches set lease_until = now() - interval '1 s'`,
	} {
		if _, err := r.db.Exec(bg, sql); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestLateFinisherIsFencedAndItsOutcomeIsEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		outcome func() channels.Outcome
		want    intents.State
	}{
		"accepted": {accepted, intents.Succeeded},
		"refused":  {func() channels.Outcome { return channels.OutcomeRefused("550", "no") }, intents.Rejected},
		"unknown":  {lost, intents.UnknownState},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			gate := newGateway()
			mail := on(visible)
			mail.send = gate.hold(c.outcome)
			d := r.dispatcher(mail.as("mail"))
			r.submit("shop", "mail", ask("mail:1"))
			<-gate.begun
			r.lapse() // the sender stands still, longer than its lease
			id := identity("shop", "mail", "mail:1")
			if i := r.reaches(id, intents.UnknownState); i.Generation != 2 || i.Takeovers != 1 || i.Attempts != 0 {
				t.Errorf("after the takeover: %+v", i)
			}
			close(gate.open)
			r.until("the late outcome on record", func() bool {
				return r.count(`select count(*) from evidence where source = 'late-finisher' and generation = 1`) == 1
			})
			r.reaches(id, c.want)
			if mail.count() != 1 || d.metric(t, "fenced_total", "mail") != 1 || d.metric(t, "takeovers_total", "mail") != 1 {
				t.Errorf("%d sends; fenced and takeovers are not counted", mail.count())
			}
		})
	}
}

func TestW5DeathsBeforeTheEffectAreNoAttempts(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	cfg := r.config(r.store, c.as("hooks", func(s *channels.Settings) { s.MaxAttempts = 3 }))
	cfg.Dispatch = false
	intake := r.start(cfg) // admits, and sends nothing
	r.submit("shop", "hooks", ask("note:1"))
	r.drain(intake)
	// Five owners claim and die; each time somebody takes over.
	id := identity("shop", "hooks", "note:1")
	for death := range 5 {
		claims, err := r.store.Claim(bg, intents.ClaimRequest{
			Channel: "hooks", KeyScope: keyed.KeyScope,
			Owner: fmt.Sprintf("dead/%d", death), Lease: time.Minute, N: 1, Token: uuid.New(),
		})
		if err != nil || len(claims) != 1 {
			t.Fatalf("death %d: %d claims, %v", death, len(claims), err)
		}
		r.lapse()
		taken, err := r.store.TakeOver(bg, []string{"hooks"}, "patrol", time.Minute, 10)
		if err != nil || len(taken) != 1 {
			t.Fatalf("death %d: %d taken over, %v", death, len(taken), err)
		}
		taken[0].Trust = intents.NewTrust(time.Now(), time.Minute, 0)
		policy := intents.NewPolicy(keyed, channels.Settings{MaxAttempts: 3, MaxAge: time.Hour})
		if _, err := r.store.Settle(bg, []intents.Settlement{{
			ID: taken[0].ID, Generation: taken[0].Generation, Owner: "patrol",
			Transition: intents.AfterLease(policy, taken[0], taken[0].Now(time.Now())), NoAttempt: true,
		}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.dispatcher(c.as("hooks", func(s *channels.Settings) { s.MaxAttempts = 3 }))
	if i := r.reaches(id, intents.Succeeded); i.Attempts != 1 || i.Takeovers != 5 {
		t.Errorf("attempts %d, takeovers %d; want 1 and 5", i.Attempts, i.Takeovers)
	}
}

func TestW5FinallyFailedKeyAnswersWithItsState(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	c.send = func(ctx, channels.Attempt) channels.Outcome { return channels.OutcomeRefused("400", "no") }
	r.dispatcher(c.as("hooks"))
	r.submit("shop", "hooks", ask("note:1"))
	r.reaches(identity("shop", "hooks", "note:1"), intents.Rejected)
	if reply := r.submit("shop", "hooks", ask("note:1")); reply.Verdict != wire.Duplicate || reply.State != "rejected" {
		t.Errorf("%+v", reply)
	}
}

func TestCrashedDispatcherIsTakenOver(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	hooks, mail := on(keyed), on(visible)
	hooks.send, mail.send = gate.hold(accepted), gate.hold(accepted)
	one := func(s *channels.Settings) { s.Concurrency = 1 }
	d := r.dispatcher(hooks.as("hooks", one), mail.as("mail", one))
	for n := range 3 {
		r.submit("shop", "hooks", ask(fmt.Sprintf("note:%d", n)))
		r.submit("shop", "mail", ask(fmt.Sprintf("note:%d", n)))
	}
	<-gate.begun
	<-gate.begun
	r.crash(d)
	close(gate.open)
	r.lapse()
	other, post := on(keyed), on(visible)
	r.dispatcher(other.as("hooks"), post.as("mail"))
	r.quiet()
	for n := range 3 { // keyed: all of them, one for the second time under its first key
		r.reaches(identity("shop", "hooks", fmt.Sprintf("note:%d", n)), intents.Succeeded)
	}
	if n := r.count(`select count(*) from intents where channel = 'mail' and state = 'unknown'`); n != 1 {
		t.Errorf("%d mails are UNKNOWN, want the one that was on the wire: the others were not claimed yet", n)
	}
	if post.count() != 2 || other.count() != 3 {
		t.Errorf("%d mails and %d hooks sent by the second; want 2 and 3", post.count(), other.count())
	}
	if first := hooks.all()[0]; other.effects()[first.EffectKey] != 1 || string(first.Rendered) != string(find(other.all(), first.EffectKey).Rendered) {
		t.Error("the resend has not the first one's key and bytes")
	}
}

func find(sends []sent, key string) sent {
	for _, s := range sends {
		if s.EffectKey == key {
			return s
		}
	}
	return sent{}
}

func TestMisconfiguredChannelIsPausedAndTriedWithOne(t *testing.T) {
	r := newRig(t)
	bad := on(keyed)
	bad.send = func(ctx, channels.Attempt) channels.Outcome {
		return channels.OutcomeMisconfigured(channels.PhaseReply, "401", "the key was revoked")
	}
	d := r.dispatcher(bad.as("hooks", func(s *channels.Settings) { s.Concurrency = 1; s.MaxAttempts = 1 }))
	for n := range 5 {
		r.submit("shop", "hooks", ask(fmt.Sprintf("note:%d", n)))
	}
	paused := func() (n int) {
		return r.count(`select count(*) from channel_states where paused_until > now() and code = '401' and pauses = 1`)
	}
	r.until("the pause", func() bool { return paused() == 1 })
	r.until("all handed back", func() bool {
		return r.count(`select count(*) from intents where state = 'pending' and attempts = 0`) == 5
	})
	r.comes() // no back-off is what holds them back
	d.scouted()
	if bad.count() != 1 || d.metric(t, "channel_paused", "hooks") != 1 {
		t.Errorf("%d sends on a paused channel, want the one that found the fault", bad.count())
	}
	r.drain(d)

	// The pause is over: one try at a time, and the first success ends it.
	if _, err := r.db.Exec(bg, `update channel_states set paused_until = now(); update agenda set at = now()`); err != nil {
		t.Fatal(err)
	}
	gate := newGateway()
	good := on(keyed)
	good.send = gate.hold(accepted)
	d = r.dispatcher(good.as("hooks"))
	<-gate.begun
	d.scouted()
	if good.count() != 1 {
		t.Errorf("%d sends on trial, want 1", good.count())
	}
	close(gate.open)
	r.quiet()
	r.until("the channel's fault forgotten", func() bool {
		return r.count(`select count(*) from channel_states where pauses = 0 and paused_until is null`) == 1
	})
	if good.count() != 5 {
		t.Errorf("%d sends after the trial, want 5", good.count())
	}
}

func TestNewCredentialsEndAPause(t *testing.T) {
	r := newRig(t)
	if err := r.store.Pause(bg, "hooks", "old account", "401", "revoked", time.Hour, time.Hour); err != nil {
		t.Fatal(err)
	}
	same := on(keyed)
	same.contract.KeyScope = "old account"
	d := r.dispatcher(same.as("hooks"))
	r.submit("shop", "hooks", ask("note:1"))
	d.scouted()
	if same.count() != 0 {
		t.Error("sent under the credentials that the provider refused")
	}
	r.drain(d)
	fresh := on(keyed)
	fresh.contract.KeyScope = "new account"
	r.dispatcher(fresh.as("hooks"))
	r.reaches(identity("shop", "hooks", "note:1"), intents.Succeeded)
}

func TestBreakerKeepsADeadProviderFromBeingHammered(t *testing.T) {
	r := newRig(t)
	c := on(visible)
	c.send = func(ctx, channels.Attempt) channels.Outcome { return lost() }
	d := r.dispatcher(c.as("mail", func(s *channels.Settings) { s.Concurrency = 1 }))
	for n := range 30 {
		r.submit("shop", "mail", ask(fmt.Sprintf("note:%d", n)))
	}
	r.until("the breaker open", func() bool { return d.metric(t, "breaker_open", "mail") == 1 })
	open := c.all()[4].at
	time.Sleep(2 * time.Second)
	sends := c.all()
	if tries := int(time.Since(open) / (5 * time.Second)); len(sends) > 5+tries {
		t.Errorf("%d sends to a provider that answers none, want 5 and a try every 5 s", len(sends))
	}
	n := r.count(`select count(*) from intents where state = 'pending' and generation = 0`)
	if tries := int(time.Since(open) / (5 * time.Second)); n < 25-tries {
		t.Errorf("%d wait untouched, want 25 less one for every 5 s", n)
	}
	if !strings.Contains(r.logs.String(), "circuit breaker changed") {
		t.Error("nobody was told")
	}
}

// Admitted while a repeat would have been seen, sent after the channel was made keyed: what was rendered holds no key, so a lost reply
// is not repeated.
func TestGuaranteeIsThatOfAdmission(t *testing.T) {
	r := newRig(t)
	before := on(visible)
	before.draw = func(m channels.Message) ([]byte, error) { return append([]byte("no key; "), m.Content...), nil }
	d := r.dispatcher(before.as("mail"))
	r.submit("shop", "mail", ask("mail:1").with("not_before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)))
	r.drain(d)
	if _, err := r.db.Exec(bg, `update agenda set at = now()`); err != nil { // the hour is over
		t.Fatal(err)
	}
	after := on(keyed)
	after.send = func(ctx, channels.Attempt) channels.Outcome { return lost() }
	r.dispatcher(after.as("mail"))
	if i := r.reaches(identity("shop", "mail", "mail:1"), intents.UnknownState); after.count() != 1 || i.PossibleDuplicates != 0 {
		t.Errorf("sent %d times, %d possible duplicates", after.count(), i.PossibleDuplicates)
	}
}
