package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

func (q request) revision(n int, text string) request {
	return q.with("revision", n).with("content", map[string]any{"text": text})
}

func at(id intents.Intent) string { return id.ID.String() }

func TestNewerRevisionReplacesAnUnsentOlderOne(t *testing.T) {
	r := newRig(t)
	c := on(replaceable)
	d := r.dispatcher(c.as("push"))
	later := time.Now().Add(time.Hour).Format(time.RFC3339Nano)
	old := r.submit("shop", "push", ask("score:1").revision(0, "1:0").with("not_before", later))
	r.submit("shop", "push", ask("score:1").revision(2, "2:0"))
	if reply := r.submit("shop", "push", ask("score:1").revision(1, "1:1")); reply.Verdict != wire.Superseded || reply.Newer != 2 || reply.Code != wire.CodeRevisionOld {
		t.Errorf("an older revision that comes late: %+v", reply)
	}
	if reply := r.submit("shop", "push", ask("score:1").revision(0, "1:0")); reply.Verdict != wire.Duplicate || reply.Intent != old.Intent || reply.State != string(intents.SupersededState) {
		t.Errorf("the repeat of a superseded revision: %+v", reply)
	}
	r.quiet()
	r.comes() // also the time of the older one
	d.scouted()
	if sends := c.all(); len(sends) != 1 || !strings.Contains(string(sends[0].Rendered), "2:0") {
		t.Errorf("%d sends, want the newest revision alone", len(sends))
	}
}

func TestNewerRevisionWaitsForTheOlderOneOnTheWire(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	c := on(replaceable)
	c.send = func(ctx ctx, a channels.Attempt) channels.Outcome {
		if strings.Contains(string(a.Rendered), "1:0") {
			return gate.hold(lost)(ctx, a) // and is not resent: a newer one stands
		}
		return accepted()
	}
	r.dispatcher(c.as("push"))
	r.submit("shop", "push", ask("score:1").revision(0, "1:0"))
	<-gate.begun
	r.submit("shop", "push", ask("score:1").revision(1, "2:0"))
	r.submit("shop", "push", ask("score:2")) // due after it
	r.reaches(identity("shop", "push", "score:2"), intents.Succeeded)
	if n := r.count(`select count(*) from intents where state = 'pending' and generation = 0`); n != 1 || c.count() != 2 {
		t.Fatalf("%d sends while the older revision is on the wire, want it and another fact's; %d wait unclaimed, want the newer one", c.count(), n)
	}
	close(gate.open)
	r.until("the newer revision sent", func() bool { return r.count(`select count(*) from intents where state = 'succeeded'`) == 2 })
	r.reaches(identity("shop", "push", "score:1"), intents.UnknownState) // revision 0
	if n := r.count(`select count(*) from agenda where kind = 'due'`); n != 0 {
		t.Errorf("%d sends are still to come", n)
	}
	sends := c.all()
	older, newer := sends[0], sends[len(sends)-1]
	if len(sends) != 3 || !strings.Contains(string(newer.Rendered), "2:0") || older.CollapseKey != newer.CollapseKey || older.EffectKey == newer.EffectKey {
		t.Errorf("sends: %d; want the older, another fact's, then the newer, with one collapse key and two effect keys", len(sends))
	}
}

func TestNotBeforeIsKept(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	r.dispatcher(c.as("hooks"))
	due := time.Now().Add(1300 * time.Millisecond)
	r.submit("shop", "hooks", ask("note:1").with("not_before", due.Format(time.RFC3339Nano)))
	r.quiet()
	if early := due.Sub(c.all()[0].at); early > 5*time.Millisecond {
		t.Errorf("sent %v before not_before", early)
	}
}

func TestExpiry(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	r.dispatcher(c.as("hooks"))
	later, past := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-time.Second).Format(time.RFC3339)
	if reply := r.submit("shop", "hooks", ask("note:1").with("expires_at", later)); reply.Verdict != wire.Accepted {
		t.Fatalf("%+v", reply)
	}
	r.reaches(identity("shop", "hooks", "note:1"), intents.Succeeded)
	r.submit("shop", "hooks", ask("note:2").with("not_before", later).with("expires_at", muchLater()))
	r.expire()
	r.reaches(identity("shop", "hooks", "note:2"), intents.Expired)
	if reply := r.submit("shop", "hooks", ask("note:1").with("expires_at", past)); reply.Verdict != wire.Duplicate || reply.State != string(intents.Succeeded) {
		t.Errorf("the repeat of a request that was admitted in time: %+v", reply)
	}
	if reply := r.submit("shop", "hooks", ask("note:3").with("expires_at", past)); reply.Verdict != wire.Refused || reply.Code != wire.CodeExpired {
		t.Errorf("a request that comes too late: %+v", reply)
	}
	if sends := c.all(); len(sends) != 1 || sends[0].ExpiresAt.IsZero() {
		t.Errorf("%d sends, want one that passes its expiry on", len(sends))
	}
}

func TestCancel(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	d := r.dispatcher(c.as("hooks"))
	r.submit("shop", "hooks", ask("note:1").with("not_before", time.Now().Add(time.Hour).Format(time.RFC3339Nano)))
	for range 2 { // a repeat is told the same
		if got := r.cancel("shop", "hooks", "note:1"); got.Result != wire.CancelDone || got.State != string(intents.Cancelled) {
			t.Errorf("cancel: %+v", got)
		}
	}
	r.submit("shop", "hooks", ask("note:2"))
	r.reaches(identity("shop", "hooks", "note:2"), intents.Succeeded)
	if got := r.cancel("shop", "hooks", "note:2"); got.Result != wire.CancelTooLate || got.State != string(intents.Succeeded) {
		t.Errorf("cancel after the send: %+v", got)
	}
	r.comes() // also the time of the cancelled one
	d.scouted()
	if c.count() != 1 {
		t.Errorf("%d sends, want 1", c.count())
	}
}

func TestStatusTellsTheWholeStory(t *testing.T) {
	r := newRig(t)
	r.dispatcher(on(keyed).as("hooks"))
	reply := r.submit("shop", "hooks", ask("note:1"))
	i := r.reaches(identity("shop", "hooks", "note:1"), intents.Succeeded)
	s := answered(r, wire.StatusSubject("shop"), wire.Ref{Channel: "hooks", Key: "note:1"}.Encode(), wire.DecodeStatus)
	if s.Intent != reply.Intent || s.Intent != at(i) || s.State != "succeeded" || s.Guarantee != "keyed" || s.Attempts != 1 ||
		s.ProviderID != "p-1" || s.NotBefore != nil || s.CreatedAt.IsZero() || !s.OccurredAt.Equal(i.OccurredAt) {
		t.Errorf("status: %+v", s)
	}
}
