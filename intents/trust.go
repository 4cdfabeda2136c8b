package intents

import "time"

// Trust is the time for which a claimer may believe in its claim. It is counted from a local, monotonic reading taken before
// the claim was issued, so that neither a slow reply nor another host's clock can lengthen it (as riverqueue/river's
// elector does for leadership).
type Trust struct {
	Before   time.Time // local reading before the claim was issued
	StartBy  time.Time // an effect that has not begun by then is not begun
	FinishBy time.Time // an attempt ends by then, finished or not
}

// LeaseMargin is how much earlier than the lease an attempt must have ended: settling takes time, and clocks drift.
const LeaseMargin = 5 * time.Second

// LeaseFor returns the lease that an attempt of at most timeout needs: the attempt, as long again to come to its
// beginning (bounded), and the margin.
func LeaseFor(timeout time.Duration) time.Duration {
	return timeout + min(max(timeout, 5*time.Second), 15*time.Second) + LeaseMargin
}

// NewTrust returns the trust window of a claim issued at the local reading before, for that lease and attempt timeout.
func NewTrust(before time.Time, lease, timeout time.Duration) Trust {
	finish := before.Add(lease - LeaseMargin)
	return Trust{Before: before, StartBy: finish.Add(-timeout), FinishBy: finish}
}

// MayStart reports whether an effect may still begin at now. Both clocks must say so: the monotonic one cannot be set, but stands still while the
// machine sleeps or its virtual machine is paused; the wall clock is set right afterwards.
func (t Trust) MayStart(now time.Time) bool {
	return now.Before(t.StartBy) && now.Round(0).Before(t.StartBy.Round(0))
}
