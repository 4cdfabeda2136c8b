package intenttest

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
)

// S5: an intent created long ago and claimed just now is not taken over.
func ageCountsFromTheClaim(d *driver) {
	d.admit(Ask("old:1", 0))
	d.s.Pass(d.t, 91*24*time.Hour)
	c := d.claimOne()
	if cs := d.takeOver(Them); len(cs) != 0 {
		d.t.Fatalf("taken over: %+v", cs)
	}
	if got := d.settle(Succeeded(c, Me)); got.Fenced || got.State != intents.Succeeded {
		d.t.Fatalf("%+v", got)
	}
}

// D5: not a moment before the lease ends by the store's clock, and then by one of two.
func noEarlyTakeover(d *driver) {
	d.admit(Ask("d:1", 0), Ask("d:2", 0, ClaimNow))
	d.claim(1)
	d.s.Pass(d.t, Lease-time.Minute)
	if cs := d.takeOver(Them); len(cs) != 0 {
		d.t.Fatalf("before the lease ends: %+v", cs)
	}
	d.s.Pass(d.t, time.Minute)
	if cs := d.takeOver(Them); len(cs) != 2 {
		d.t.Fatalf("%d of 2 taken over", len(cs))
	}
	if cs := d.takeOver("third/1"); len(cs) != 0 {
		d.t.Fatalf("taken over twice: %+v", cs)
	}
	// Its reply was lost, say: what is taken over and not settled is returned again, unchanged.
	for _, c := range d.takeOver(Them) {
		if c.Generation != 2 || c.Takeovers != 1 {
			d.t.Errorf("again: %+v", c)
		}
		d.settle(LeaseOver(c, Them, true))
	}
	if cs := d.takeOver(Them); len(cs) != 0 {
		d.t.Fatalf("settled and returned again: %+v", cs)
	}
}

func deathsCountApart(d *driver) {
	d.admit(Ask("w:1", 0))
	for range 5 {
		d.claimOne()
		d.s.Pass(d.t, Lease)
		cs := d.takeOver(Them)
		if len(cs) != 1 {
			d.t.Fatalf("%d taken over", len(cs))
		}
		d.settle(LeaseOver(cs[0], Them, false))
	}
	i := d.want("w:1", 0, intents.Pending)
	if i.Attempts != 0 || i.Takeovers != 5 || i.PossibleDuplicates != 5 || !i.Doubt || i.Generation != 10 {
		d.t.Errorf("%+v", i)
	}
	if as := d.s.Attempts(d.t, i.ID); len(as) != 5 || as[0].Result != "unknown" || as[0].Owner != Me || as[0].Generation != 1 {
		d.t.Errorf("attempts on record: %+v", as)
	}
}

func rejectedStays(d *driver) {
	d.reach(intents.Rejected, "w:1")
	vs := d.admit(Ask("w:1", 0))
	if d.wantKinds(vs, intents.Duplicate); vs[0].State != intents.Rejected {
		d.t.Errorf("%+v", vs[0])
	}
	if i := d.want("w:1", 0, intents.Rejected); !i.DeadRecipient || i.Code != "550" {
		d.t.Errorf("%+v", i)
	}
	if cs := d.claim(10); len(cs) != 0 {
		d.t.Errorf("claimed again: %+v", cs)
	}
}

// W5, the third: a job declared dead goes on running. Its late result changes no state and goes on record once.
func slowWorkerIsFenced(d *driver) {
	d.admit(Ask("w:1", 0))
	slow := d.claimOne()
	d.s.Pass(d.t, Lease)
	d.settle(LeaseOver(d.takeOver(Them)[0], Them, false))
	second := d.claimFor(Wish("mail", Them, 1))[0]
	if got := d.settle(Succeeded(slow, Me)); !got.Fenced || got.State != intents.Sending {
		d.t.Fatalf("the slow worker settled: %+v", got)
	}
	for range 2 {
		if got := d.witness(Succeeded(slow, Me)); !got.Fenced || got.State != intents.Sending {
			d.t.Fatalf("the slow worker's evidence settled: %+v", got)
		}
	}
	// The owner's name alone is no claim, and neither is the generation.
	for _, wrong := range []intents.Settlement{Succeeded(slow, Them), Succeeded(second, Me)} {
		if got := d.settle(wrong); !got.Fenced {
			d.t.Fatalf("%+v went through", wrong)
		}
	}
	if got := d.settle(Succeeded(second, Them)); got.Fenced || got.State != intents.Succeeded {
		d.t.Fatalf("%+v", got)
	}
	if got := d.settle(intents.Settlement{ID: uuid.New(), Generation: 1, Owner: Me, Transition: intents.HandBack("nobody"), NoAttempt: true}); !got.Missing || !got.Fenced {
		d.t.Fatalf("an intent that is none: %+v", got)
	}
}

func unknownChannel(d *driver) {
	for _, key := range []string{"f:1", "f:2", "f:3"} {
		d.admit(Ask(key, 0, On("fax")), Ask(key+"n", 0, On("fax"), ClaimNow))
	}
	d.claimFor(Wish("fax", Me, 3))
	d.admit(Ask("m:1", 0))
	d.claimOne()
	d.s.Pass(d.t, Lease)
	cs, err := d.s.Store.TakeOver(d.ctx, []string{"mail"}, Them, Lease, 1)
	if err != nil || len(cs) != 1 || cs[0].Identity.Channel != "mail" {
		d.t.Fatalf("the ones that nobody knows hide the others: %+v %v", cs, err)
	}
	for _, key := range []string{"f:1", "f:1n"} {
		if i := d.find(Ask(key, 0, On("fax")).Identity); i.State != intents.Sending || i.Generation != 1 {
			d.t.Errorf("not left alone: %+v", i)
		}
	}
	if cs := d.takeOver(Me, "fax"); len(cs) != 6 {
		d.t.Errorf("who knows the channel takes over %d of 6", len(cs))
	}
}

func handedBack(d *driver) {
	d.admit(Ask("l:1", 0), Ask("l:2", 0, ClaimNow), Ask("l:3", 0))
	cs := d.claim(2)
	d.settle(HandedBack(cs[0], Me))
	d.settle(NotSent(cs[1], Me, 30*time.Minute))
	i := d.find(cs[0].Identity)
	if i.State != intents.Pending || i.Owner != "" || !i.LeaseUntil.IsZero() || i.NextAttemptAt.IsZero() || i.Attempts != 0 || i.Generation != 1 {
		d.t.Errorf("handed back: %+v", i)
	}
	if as := d.s.Attempts(d.t, i.ID); len(as) != 0 {
		d.t.Errorf("nothing was tried, but on record is %+v", as)
	}
	c := d.claimOne()
	if c.ID != cs[0].ID || c.Generation != 2 || c.Doubt {
		d.t.Errorf("claimed again: %+v", c)
	}
	d.s.Pass(d.t, 30*time.Minute)
	if c := d.claimOne(); c.ID != cs[1].ID || c.Attempts != 1 {
		d.t.Errorf("after the back-off: %+v", c)
	}
}

func settleAgain(d *driver) {
	d.admit(Ask("s:1", 0), Ask("s:2", 0), Ask("s:3", 0), Ask("s:4", 0), Ask("s:5", 0))
	cs := d.claim(10)
	all := []intents.Settlement{Succeeded(cs[0], Me), NotSent(cs[1], Me, 0), Parked(cs[2], Me), HandedBack(cs[3], Me), Expired(cs[4], Me)}
	want := []intents.State{intents.Succeeded, intents.Pending, intents.UnknownState, intents.Pending, intents.Expired}
	for round := range 3 {
		out, err := d.s.Store.Settle(d.ctx, all, nil)
		if err != nil {
			d.t.Fatal(err)
		}
		for i, got := range out {
			if got.ID != cs[i].ID || got.Fenced || got.Missing || got.State != want[i] {
				d.t.Errorf("round %d: settlement %d is answered %+v, want %s", round, i, got, want[i])
			}
		}
		if round == 1 {
			d.claim(10) // somebody else goes on with them
		}
	}
	if i := d.find(cs[1].Identity); i.Attempts != 1 || i.State != intents.Sending || i.Generation != 2 {
		d.t.Errorf("counted twice, or moved: %+v", i)
	}
	if as := d.s.Attempts(d.t, cs[0].ID); len(as) != 1 || as[0].Result != "accepted" || as[0].State != intents.Succeeded || as[0].ProviderID != "provider-7" {
		d.t.Errorf("on record: %+v", as)
	}
	// One intent twice in one call: the second says what was written.
	d.admit(Ask("s:6", 0))
	c := d.claimOne()
	out, err := d.s.Store.Settle(d.ctx, []intents.Settlement{Succeeded(c, Me), Rejected(c, Me)}, nil)
	if err != nil || out[0].State != intents.Succeeded || out[1].State != intents.Succeeded {
		d.t.Errorf("twice in one call: %+v %v", out, err)
	}
}
