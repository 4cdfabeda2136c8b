package intenttest

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
)

func newestWins(d *driver) {
	d.wantKinds(d.admit(Ask("r:1", 0)), intents.Accepted)
	d.wantKinds(d.admit(Ask("r:1", 2)), intents.Accepted)
	d.wantKinds(d.admit(Ask("r:1", 1)), intents.Superseded)
	d.wantKinds(d.admit(Ask("r:1", 0), Ask("r:1", 0, Text("other"))), intents.Duplicate, intents.Conflict)
	newest := d.want("r:1", 2, intents.Pending)
	if old := d.want("r:1", 0, intents.SupersededState); old.SupersededBy != newest.ID {
		d.t.Errorf("superseded by %v, want %v", old.SupersededBy, newest.ID)
	}
	if c := d.claimOne(); c.ID != newest.ID {
		d.t.Errorf("claimed %+v", c.Identity)
	}
}

// olderOnTheWire: a revision waits while an older one is being sent, and that one never comes back after its attempt.
func olderOnTheWire(d *driver) {
	for key, settle := range map[string]func(intents.Claim, string) intents.Settlement{
		"r:handed-back": HandedBack,
		"r:not-sent":    func(c intents.Claim, o string) intents.Settlement { return NotSent(c, o, 0) },
		"r:accepted":    Succeeded,
		"r:unknown":     Resent,
	} {
		d.admit(Ask(key, 0))
		old := d.claimOne()
		d.admit(Ask(key, 1, ClaimNow))
		d.admit(Ask("free:"+key[2:], 0, Urgency(intents.Low)))
		if c := d.claimOne(); c.Identity.Key == old.Identity.Key {
			d.t.Fatalf("%s: two revisions on the wire", key)
		} else {
			d.settle(Succeeded(c, Me)) // one that waits hides nothing behind it
		}
		d.settle(settle(old, Me))
		want := map[string]intents.State{"r:accepted": intents.Succeeded, "r:unknown": intents.UnknownState}[key]
		if want == "" {
			want = intents.SupersededState
		}
		if i := d.want(key, 0, want); i.PossibleDuplicates != 0 || i.SupersededBy == uuid.Nil {
			d.t.Errorf("%s: %+v", key, i)
		}
		c := d.claimOne()
		if c.Identity.Revision != 1 {
			d.t.Errorf("%s: claimed %+v", key, c.Identity)
		}
		d.settle(Succeeded(c, Me))
	}
}

// olderInDoubt: what may have been applied is never called superseded, only UNKNOWN; and it is not sent again.
func olderInDoubt(d *driver) {
	d.admit(Ask("r:1", 0))
	d.settle(Resent(d.claimOne(), Me)) // waits, in doubt
	d.admit(Ask("r:2", 0, Urgency(intents.High)))
	late := d.claim(1)[0]
	d.s.Pass(d.t, Lease)
	d.settle(LeaseOver(d.takeOver(Them)[0], Them, true))
	d.admit(Ask("r:2", 1))
	if got := d.witness(NotSent(late, Me, 0)); got.State != intents.SupersededState {
		d.t.Errorf("not sent, and superseded: %+v", got)
	}
	d.admit(Ask("r:1", 1))
	if i := d.want("r:1", 0, intents.UnknownState); i.Code != "superseded-in-doubt" {
		d.t.Errorf("%+v", i)
	}
	for _, c := range d.claim(10) {
		if c.Identity.Revision == 0 {
			d.t.Errorf("claimed %+v", c.Identity)
		}
	}
}

func mostUrgentFirst(d *driver) {
	d.admit(Ask("p:low", 0, Urgency(intents.Low)))
	d.admit(Ask("p:normal", 0))
	d.admit(Ask("p:high", 0, Urgency(intents.High)))
	d.admit(Ask("p:later", 0, Urgency(intents.High), NotBefore(time.Hour)))
	d.admit(Ask("p:over", 0, Urgency(intents.High), ExpiresIn(-time.Second)))
	d.admit(Ask("p:elsewhere", 0, On("hooks")))
	if names, err := d.s.Store.DueChannels(d.ctx); err != nil || len(names) != 2 || names[0] != "hooks" || names[1] != "mail" {
		d.t.Errorf("due: %v %v", names, err)
	}
	for _, want := range []string{"p:high", "p:normal", "p:low"} {
		if c := d.claim(1)[0]; string(c.Identity.Key) != want {
			d.t.Errorf("claimed %s, want %s", c.Identity.Key, want)
		}
	}
	if cs := d.claim(10); len(cs) != 0 {
		d.t.Errorf("not due, but claimed: %+v", cs)
	}
}

func sameTokenSameClaims(d *driver) {
	d.admit(Ask("c:1", 0), Ask("c:2", 0), Ask("c:3", 0), Ask("c:4", 0))
	w := Wish("mail", Me, 2)
	first := d.claimFor(w)
	d.s.Pass(d.t, 10*time.Minute)
	second := d.claimFor(w)
	if len(first) != 2 || len(second) != 2 {
		d.t.Fatalf("%d and %d claims", len(first), len(second))
	}
	ids := map[uuid.UUID]int32{first[0].ID: first[0].Generation, first[1].ID: first[1].Generation}
	for _, c := range second {
		if g, ok := ids[c.ID]; !ok || g != c.Generation {
			d.t.Errorf("another claim: %+v", c)
		}
		// The lease runs from the call that returned it, so that its trust window may.
		if left := d.find(c.Identity).LeaseUntil.Sub(c.ClaimedAt); left < Lease-time.Second {
			d.t.Errorf("the lease has %v left", left)
		}
	}
	// 65 minutes after the first lease began, 55 after the second.
	d.s.Pass(d.t, Lease-5*time.Minute)
	if cs := d.takeOver(Them); len(cs) != 0 {
		d.t.Errorf("taken over in the lease that was begun anew: %+v", cs)
	}
	if got := d.settle(Succeeded(first[0], Me)); got.Fenced {
		d.t.Errorf("%+v", got)
	}
	if third := d.claimFor(w); len(third) != 1 || third[0].ID != first[1].ID {
		d.t.Errorf("after one was settled: %+v", third)
	}
	stranger := w
	stranger.Owner = Them
	for _, c := range d.claimFor(stranger) {
		if _, mine := ids[c.ID]; mine {
			d.t.Errorf("another owner got %+v", c)
		}
	}
}

// firstUse: the key window runs from the first attempt in doubt, under the scope it was used with; attempts that provably did
// nothing do not count.
func firstUse(d *driver) {
	d.admit(Ask("k:1", 0))
	first := d.claimOne()
	d.settle(NotSent(first, Me, 0))
	d.s.Pass(d.t, time.Minute)
	second := d.claimOne()
	if !second.FirstUsedAt.Equal(second.ClaimedAt) {
		d.t.Errorf("not in doubt: first used %v, claimed %v", second.FirstUsedAt, second.ClaimedAt)
	}
	d.settle(Resent(second, Me))
	w := Wish("mail", Me, 1)
	w.KeyScope = "another account"
	third := d.claimFor(w)[0]
	if !third.Doubt || !third.FirstUsedAt.Equal(second.FirstUsedAt) || third.KeyScope != "scope" || third.Attempts != 2 {
		d.t.Errorf("in doubt: %+v, first used %v", third, second.FirstUsedAt)
	}
}

func sweepTimes(d *driver) {
	d.admit(Ask("x:1", 0, ExpiresIn(90*time.Minute)), Ask("x:2", 0, ExpiresIn(90*time.Minute)), Ask("x:3", 0, ExpiresIn(150*time.Minute)), Ask("x:4", 0))
	for _, c := range d.claim(10) {
		if c.Identity.Key == "x:2" {
			d.settle(Resent(c, Me))
			continue
		}
		d.settle(HandedBack(c, Me))
	}
	d.sweep(0)
	d.s.Pass(d.t, 2*time.Hour)
	d.sweep(2)
	d.sweep(0)
	d.want("x:1", 0, intents.Expired)
	if i := d.want("x:2", 0, intents.UnknownState); i.Code != "expired-in-doubt" {
		d.t.Errorf("%+v", i)
	}
	d.want("x:3", 0, intents.Pending)
	d.want("x:4", 0, intents.Pending)
}

func cancelWaiting(d *driver) {
	d.admit(Ask("c:1", 0), Ask("c:2", 0), Ask("c:3", 0))
	cancel := func(key string) (intents.Intent, bool, bool) {
		i, found, cancelled, err := d.s.Store.Cancel(d.ctx, Ask(key, 0).Identity, "shop")
		if err != nil {
			d.t.Fatal(err)
		}
		return i, found, cancelled
	}
	for range 2 { // the second time as after a lost reply
		if i, found, cancelled := cancel("c:1"); !found || !cancelled || i.State != intents.Cancelled || i.Generation != 0 {
			d.t.Errorf("%+v %v %v", i, found, cancelled)
		}
	}
	for _, c := range d.claim(10) {
		if i, found, cancelled := cancel(string(c.Identity.Key)); !found || cancelled || i.State != intents.Sending {
			d.t.Errorf("on the wire: %+v %v %v", i, found, cancelled)
		}
		d.settle(Resent(c, Me))
		if i, _, cancelled := cancel(string(c.Identity.Key)); cancelled || i.State != intents.Pending || !i.Doubt {
			d.t.Errorf("in doubt: %+v %v", i, cancelled)
		}
	}
	if _, found, cancelled := cancel("c:none"); found || cancelled {
		d.t.Error("found what is not there")
	}
}

func pauseGrows(d *driver) {
	d.admit(Ask("p:1", 0), Ask("p:2", 0, On("hooks")))
	pause := func() time.Duration {
		for range 3 { // several senders meet the same fault: one pause
			if err := d.s.Store.Pause(d.ctx, "mail", "scope", "535", "the login was refused", time.Minute, 3*time.Minute); err != nil {
				d.t.Fatal(err)
			}
		}
		states, err := d.s.Store.ChannelStates(d.ctx)
		if err != nil || len(states) != 1 || !states[0].Paused || states[0].Code != "535" || states[0].KeyScope != "scope" {
			d.t.Fatalf("%+v %v", states, err)
		}
		if cs := d.claim(10); len(cs) != 0 {
			d.t.Fatalf("claimed while paused: %+v", cs)
		}
		if names, err := d.s.Store.DueChannels(d.ctx); err != nil || len(names) != 1 || names[0] != "hooks" {
			d.t.Fatalf("due: %v %v", names, err)
		}
		left := time.Until(states[0].PausedUntil)
		d.s.Pass(d.t, left+time.Second)
		return left.Round(time.Minute)
	}
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute} {
		if got := pause(); got != want {
			d.t.Errorf("paused for %v, want %v", got, want)
		}
	}
	d.settle(NotSent(d.claimOne(), Me, 0)) // the pause is over: a try is allowed
	if err := d.s.Store.Resume(d.ctx, "mail"); err != nil {
		d.t.Fatal(err)
	}
	if got := pause(); got != time.Minute {
		d.t.Errorf("after an end it begins anew, but paused for %v", got)
	}
}

func dutyOneAtATime(d *driver) {
	on := func(owner string) bool {
		ok, err := d.s.Store.OnDuty(d.ctx, "relay", owner, Lease)
		if err != nil {
			d.t.Fatal(err)
		}
		return ok
	}
	if !on(Me) || on(Them) || !on(Me) {
		d.t.Error("one at a time, and it may renew")
	}
	d.s.Pass(d.t, Lease)
	if !on(Them) || on(Me) {
		d.t.Error("after the lease the other may")
	}
}
