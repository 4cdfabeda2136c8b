package intenttest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// reach brings a fresh intent of that key into each state that a request can meet.
func (d *driver) reach(state intents.State, key string) {
	d.t.Helper()
	how := func(a *intents.Admission) {}
	if state == intents.Expired {
		how = ExpiresIn(30 * time.Minute)
	}
	d.admit(Ask(key, 0, how))
	switch state {
	case intents.Pending:
		return
	case intents.Expired:
		d.s.Pass(d.t, time.Hour)
		d.sweep(1)
	case intents.Cancelled:
		if _, _, cancelled, err := d.s.Store.Cancel(d.ctx, Ask(key, 0).Identity, "shop"); err != nil || !cancelled {
			d.t.Fatalf("cancelled %v, %v", cancelled, err)
		}
	case intents.SupersededState:
		d.admit(Ask(key, 1))
		d.settle(Succeeded(d.claimOne(), Me))
	default:
		c := d.claimOne()
		switch state {
		case intents.Succeeded:
			d.settle(Succeeded(c, Me))
		case intents.Rejected:
			d.settle(Rejected(c, Me))
		case intents.UnknownState:
			d.settle(Parked(c, Me))
		case intents.Exhausted:
			d.settle(Exhausted(c, Me))
		}
	}
}

func (d *driver) sweep(want int) {
	d.t.Helper()
	if n, err := d.s.Store.Sweep(d.ctx, 100); err != nil || n != want {
		d.t.Fatalf("swept %d, want %d, %v", n, want, err)
	}
}

// S1: a repeat is answered, with the present state, whatever became of the first. Invariant 6: other content under the same key is
// a conflict that names what differs, and nothing of it is ever sent.
func everyStateAnswers(d *driver) {
	states := slices.DeleteFunc(intents.States(), func(s intents.State) bool {
		return s == intents.Abandoned || s == intents.Sending || s == intents.Pending // the last two at the end: they stay claimable
	})
	for _, state := range append(states, intents.Sending, intents.Pending) {
		key := "in:" + string(state)
		d.reach(state, key)
		d.want(key, 0, state)
		other := Ask(key, 0, Text("other"))
		other.Meaning.Recipient, other.Fingerprint = "eve@example.org", other.Meaning.Fingerprint()
		vs := d.admit(Ask(key, 0), other)
		d.wantKinds(vs, intents.Duplicate, intents.Conflict)
		first := d.find(Ask(key, 0).Identity)
		for _, v := range vs {
			if v.State != state || v.Intent != first.ID || v.Claim != nil {
				d.t.Errorf("%s: answered %+v", state, v)
			}
		}
		if !slices.Contains(vs[1].Fields, "content") {
			d.t.Errorf("%s: the conflict names %v", state, vs[1].Fields)
		}
	}
	for _, c := range d.claim(100) {
		if string(c.Rendered) != "rendered "+string(c.Identity.Key) || c.Recipient != "ada@example.org" {
			d.t.Errorf("a conflict's content came out: %+v", c)
		}
	}
}

func sameKeyTwice(d *driver) {
	vs := d.admit(Ask("x:1", 0), Ask("k:1", 0), Ask("k:1", 0), Ask("x:2", 0), Ask("k:2", 0), Ask("k:2", 0, Text("other")), Ask("x:3", 0))
	d.wantKinds(vs, intents.Accepted, intents.Accepted, intents.Duplicate, intents.Accepted, intents.Accepted, intents.Conflict, intents.Accepted)
	if vs[2].Intent != vs[1].Intent || vs[5].Intent != vs[4].Intent {
		d.t.Error("repeats must name the intent that stands")
	}
	if !slices.Equal(vs[5].Fields, []string{"content"}) {
		d.t.Errorf("the conflict names %v", vs[5].Fields)
	}
	// Both of them met an older one: neither is the first.
	d.wantKinds(d.admit(Ask("k:1", 0, Text("other")), Ask("k:1", 0, Text("other")), Ask("k:1", 0)), intents.Conflict, intents.Conflict, intents.Duplicate)
	// Revisions of one fact in one batch are taken in their order.
	vs = d.admit(Ask("r:1", 1), Ask("r:1", 0), Ask("r:1", 2), Ask("r:1", 1), Ask("r:1", 2, Text("other")))
	d.wantKinds(vs, intents.Accepted, intents.Superseded, intents.Accepted, intents.Duplicate, intents.Conflict)
	if vs[1].Newer != 1 {
		d.t.Errorf("superseded by %d, want 1", vs[1].Newer)
	}
}

// B8: PostgreSQL keeps microseconds and would round; the same instant must come back as the same request.
func microseconds(d *driver) {
	at := Happened.Truncate(time.Second).Add(999_999_999)
	exact := func(a *intents.Admission) { a.Meaning.OccurredAt = at }
	cut := func(a *intents.Admission) { a.Meaning.OccurredAt = at.Truncate(time.Microsecond) }
	next := func(a *intents.Admission) { a.Meaning.OccurredAt = at.Add(1) } // the following second
	d.wantKinds(d.admit(Ask("t:1", 0, exact)), intents.Accepted)
	vs := d.admit(Ask("t:1", 0, cut), Ask("t:1", 0, exact), Ask("t:1", 0, next))
	d.wantKinds(vs, intents.Duplicate, intents.Duplicate, intents.Conflict)
	if !slices.Equal(vs[2].Fields, []string{"occurred_at"}) {
		d.t.Errorf("the conflict names %v", vs[2].Fields)
	}
	if got := d.find(Ask("t:1", 0).Identity).OccurredAt; !got.Equal(at.Truncate(time.Microsecond)) {
		d.t.Errorf("stored %v of %v", got, at)
	}
}

func twoCallers(d *driver) {
	other := func(caller, key string) func(*intents.Admission) {
		return func(a *intents.Admission) { a.Identity.Caller, a.Identity.Key = caller, Ask(key, 0).Identity.Key }
	}
	d.wantKinds(d.admit(Ask("receipt-mail:1", 0), Ask("receipt-mail:1", 0, other("bank", "receipt-mail:1"), Text("other")),
		Ask("x", 0, other("a:b", "c")), Ask("x", 0, other("a", "b:c"))), intents.Accepted, intents.Accepted, intents.Accepted, intents.Accepted)
	if _, found, err := d.s.Store.FindByIdentity(d.ctx, Ask("x", 0, other("spy", "receipt-mail:1")).Identity); found || err != nil {
		d.t.Errorf("another caller's key: found %v, %v", found, err)
	}
}

func claimAtAdmission(d *driver) {
	later, over := Ask("later:1", 0, ClaimNow, NotBefore(3*time.Hour)), Ask("over:1", 0, ClaimNow, ExpiresIn(-time.Second))
	b := Batch(Ask("now:1", 0, ClaimNow), later, over, Ask("plain:1", 0))
	vs := d.admitBatch(b)
	d.wantKinds(vs, intents.Accepted, intents.Accepted, intents.Accepted, intents.Accepted)
	c := vs[0].Claim
	if c == nil || vs[0].State != intents.Sending || c.Generation != 1 || c.Batch != b.Batch || c.FirstUsedAt.IsZero() || c.KeyScope != "scope" {
		t := vs[0]
		d.t.Fatalf("claimed at admission: %+v %+v", t, c)
	}
	if vs[1].Claim != nil || vs[2].Claim != nil || vs[3].Claim != nil {
		d.t.Error("what is not due, too late, or did not ask was claimed")
	}
	if stored := d.want("now:1", 0, intents.Sending); stored.Owner != Me || stored.Generation != 1 || stored.LeaseUntil.Before(stored.CreatedAt.Add(Lease-time.Second)) {
		d.t.Errorf("stored %+v", stored)
	}
	// The same call once more, as after a lost reply: the same answer, and the claim with it, for a lease from now on.
	d.s.Pass(d.t, 10*time.Minute)
	again := d.admitBatch(b)
	d.wantKinds(again, intents.Accepted, intents.Accepted, intents.Accepted, intents.Accepted)
	if again[0].Claim == nil || again[0].Claim.Generation != 1 || again[0].Intent != vs[0].Intent || again[0].Claim.ClaimedAt.Before(c.ClaimedAt) {
		d.t.Errorf("again: %+v %+v", again[0], again[0].Claim)
	}
	d.s.Pass(d.t, Lease-5*time.Minute)
	if cs := d.takeOver(Them); len(cs) != 0 {
		d.t.Errorf("taken over in the lease that was begun anew: %+v", cs)
	}
	d.settle(Succeeded(*c, Me))
	again = d.admitBatch(b)
	if again[0].Kind != intents.Accepted || again[0].State != intents.Succeeded || again[0].Claim != nil {
		d.t.Errorf("after it was settled: %+v", again[0])
	}
	// A first claim that another sender of this owner took from the agenda is not given out a second time.
	if cs := d.claim(10); len(cs) != 1 || cs[0].ID != vs[3].Intent {
		d.t.Errorf("claimed: %+v", cs)
	}
	if again = d.admitBatch(b); again[3].Claim != nil || again[3].State != intents.Sending {
		d.t.Errorf("given out twice: %+v", again[3])
	}
	// A paused channel is not claimed at admission either.
	if err := d.s.Store.Pause(d.ctx, "mail", "scope", "535", "login", time.Minute, time.Hour); err != nil {
		d.t.Fatal(err)
	}
	if v := d.admit(Ask("paused:1", 0, ClaimNow))[0]; v.Claim != nil || v.State != intents.Pending {
		d.t.Errorf("on a paused channel: %+v", v)
	}
}

// unfinishedBatch: a batch that is said to be finished while one of its claims is not settled must still be found when its lease
// is over.
func unfinishedBatch(d *driver) {
	b := Batch(Ask("b:1", 0, ClaimNow), Ask("b:2", 0, ClaimNow), Ask("b:3", 0, ClaimNow))
	vs := d.admitBatch(b)
	out, err := d.s.Store.Settle(d.ctx, []intents.Settlement{Succeeded(*vs[0].Claim, Me), NotSent(*vs[1].Claim, Me, 0)}, []uuid.UUID{b.Batch})
	if err != nil || out[0].State != intents.Succeeded || out[1].State != intents.Pending {
		d.t.Fatal(out, err)
	}
	if cs := d.takeOver(Them); len(cs) != 0 {
		d.t.Fatalf("taken over too early: %+v", cs)
	}
	d.s.Pass(d.t, Lease)
	cs := d.takeOver(Them)
	if len(cs) != 1 || cs[0].ID != vs[2].Intent || cs[0].Generation != 2 || cs[0].Takeovers != 1 || !cs[0].Doubt {
		d.t.Fatalf("taken over: %+v", cs)
	}
}

// admittedUnder: what protects a repeat is what the intent was admitted under; a first use under another scope leaves it with none.
func admittedUnder(d *driver) {
	other := func(a *intents.Admission) { a.Guarantee = channels.Replaceable }
	d.admit(Ask("u:1", 0), Ask("u:2", 0, other), Ask("u:3", 0))
	d.admit(Ask("u:3", 1, other))
	for _, c := range d.claim(10) {
		want := channels.DuplicateVisible
		if c.Identity.Key != "u:1" {
			want = channels.Replaceable
		}
		if c.Guarantee != want || c.KeyScope != "scope" {
			d.t.Errorf("%s: claimed under %s and scope %q, want %s", c.Identity.Key, c.Guarantee, c.KeyScope, want)
		}
		d.settle(NotSent(c, Me, 0))
	}
	w := Wish("mail", Me, 10)
	w.KeyScope = "another account"
	for _, c := range d.claimFor(w) {
		if c.KeyScope == "scope" || c.KeyScope == w.KeyScope {
			d.t.Errorf("%s: admitted and used under two scopes, it has %q", c.Identity.Key, c.KeyScope)
		}
	}
	d.s.Pass(d.t, Lease)
	taken := d.takeOver(Them)
	if len(taken) != 3 {
		d.t.Fatalf("%d taken over", len(taken))
	}
	for _, c := range taken {
		if (c.Guarantee == channels.DuplicateVisible) != (c.Identity.Key == "u:1") {
			d.t.Errorf("%s: taken over under %s", c.Identity.Key, c.Guarantee)
		}
	}
	batch := Batch(Ask("u:4", 0, ClaimNow))
	for range 2 { // the second time as after a lost reply
		if c := d.admitBatch(batch)[0].Claim; c == nil || c.Guarantee != channels.Keyed {
			d.t.Errorf("claimed at admission: %+v", c)
		}
	}
}
