package intents

import (
	"testing"
	"time"
	"unsafe"

	"github.com/onebell/onebell/channels"
)

// What evidence does, for every state, doubt and kind of evidence (protocol.md sections 5 and 8).
func TestTestimony(t *testing.T) {
	for _, present := range States() {
		for _, doubt := range []bool{false, true} {
			for _, sole := range []bool{false, true} {
				for _, name := range []string{"unknown", "accepted", "refused", "not-sent", "throttled", "misconfigured"} {
					want := State("")
					switch name {
					case "accepted":
						if present == UnknownState || present == Pending && doubt {
							want = Succeeded
						}
					case "refused":
						if present == UnknownState && sole {
							want = Rejected
						}
					case "not-sent", "throttled", "misconfigured":
						if present == UnknownState && sole {
							want = Pending
						}
					}
					to, ok := Testimony(present, doubt, sole, outcome(name))
					if to != want || ok != (want != "") {
						t.Errorf("%s in doubt %v, sole %v, evidence %s: %q, %v; want %q", present, doubt, sole, name, to, ok, want)
					}
					if ok && !Leads(present, to) {
						t.Errorf("%s → %s is no edge", present, to)
					}
				}
			}
		}
	}
	if _, ok := Testimony(UnknownState, true, true, channels.Outcome{}); ok {
		t.Error("an outcome that nobody filled in settles something")
	}
}

func TestTrustEndsBeforeTheLease(t *testing.T) {
	before := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for timeout, lease := range map[time.Duration]time.Duration{
		time.Second:      time.Second + 5*time.Second + LeaseMargin,
		10 * time.Second: 10*time.Second + 10*time.Second + LeaseMargin,
		time.Minute:      time.Minute + 15*time.Second + LeaseMargin,
	} {
		if got := LeaseFor(timeout); got != lease {
			t.Errorf("LeaseFor(%v) = %v, want %v", timeout, got, lease)
		}
		tr := NewTrust(before, lease, timeout)
		if !tr.FinishBy.Equal(before.Add(lease-LeaseMargin)) || tr.FinishBy.Sub(tr.StartBy) != timeout {
			t.Errorf("timeout %v: from %v to %v", timeout, tr.StartBy, tr.FinishBy)
		}
		if slack := tr.StartBy.Sub(before); slack < 5*time.Second || slack > 15*time.Second {
			t.Errorf("timeout %v: %v to come to the beginning", timeout, slack)
		}
		if !tr.MayStart(before) || !tr.MayStart(tr.StartBy.Add(-1)) || tr.MayStart(tr.StartBy) {
			t.Errorf("timeout %v: the end of %v does not hold", timeout, tr.StartBy)
		}
	}
	if NewTrust(before, time.Minute, time.Minute).MayStart(before) {
		t.Error("a lease without room for the attempt is trusted")
	}
	if (Trust{}).MayStart(before) {
		t.Error("a claim without trust is trusted")
	}
}

// D5: trust is counted from before the claim was issued. However long the answer took, it ends a margin before the lease, which began
// when the database heard of it, and that was not before.
func TestD5TrustIsCountedFromBeforeTheClaim(t *testing.T) {
	timeout := 10 * time.Second
	lease := LeaseFor(timeout)
	issued := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, reached := range []time.Duration{0, time.Second, time.Minute} {
		leaseEnds := issued.Add(reached + lease)
		if tr := NewTrust(issued, lease, timeout); leaseEnds.Sub(tr.FinishBy) < LeaseMargin {
			t.Errorf("heard after %v: trusted until %v before the lease ends", reached, leaseEnds.Sub(tr.FinishBy))
		}
	}
	// The database's clock may be minutes away from ours: its time is estimated from the same reading, never from our own clock.
	for _, skew := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		c := Claim{ClaimedAt: issued.Add(skew), Trust: NewTrust(issued, lease, timeout)}
		if got := c.Now(issued.Add(3 * time.Second)); !got.Equal(issued.Add(skew + 3*time.Second)) {
			t.Errorf("skew %v: now is %v", skew, got)
		}
	}
}

// A machine that slept wakes with a monotonic clock that stood still. Its wall clock knows better.
func TestTrustIsOverAfterAPause(t *testing.T) {
	before := time.Now()
	tr := NewTrust(before, time.Hour, time.Minute)
	woken := before.Add(2 * time.Hour)
	monotonic := func(t *time.Time) *int64 { return &(*[2]int64)(unsafe.Pointer(t))[1] } // package time offers no way to set it
	*monotonic(&woken) = *monotonic(&before)
	if woken.Sub(before) != 0 || woken.Round(0).Sub(before.Round(0)) != 2*time.Hour {
		t.Fatal("package time keeps its readings elsewhere now")
	}
	if tr.MayStart(woken) {
		t.Error("trusted after its wall-clock end")
	}
	// And a wall clock that is set back does not lengthen it.
	back := before.Add(time.Hour)
	*monotonic(&before) += int64(2 * time.Hour)
	if tr.MayStart(before) || tr.MayStart(back) {
		t.Error("trusted after its monotonic end")
	}
}
