package intenttest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// Model says what a store ought to do, in the plainest way: one intent after the other, no concurrency, a clock of its own that only
// Pass moves. It knows channel "mail" of one caller.
type Model struct {
	Now     time.Duration // since the beginning
	Intents []*Modelled   // in the order of admission
	Events  []string      // "<key>/<revision>/<generation>/<state>"
}

// Modelled is one intent of the Model.
type Modelled struct {
	ID         uuid.UUID // the store's
	Key        dedup.Key
	Revision   int32
	Sum        [32]byte
	Priority   intents.Priority
	State      intents.State
	Generation int32
	Owner      string
	Lease      time.Duration // sending: until then
	Due        time.Duration // pending: from then on
	Expires    time.Duration // 0: never
	Doubt      bool
	Superseded bool
	Accepted   bool // evidence says so, and came while it was sent again
	TakenOver  bool // the claim is a takeover's: it will only be settled

	Attempts, Takeovers, Duplicates int
	Tried                           int // attempts that were settled
	Lost                            int // attempts whose lease ran out
	Heard                           []int32
}

func (m *Model) find(key dedup.Key, revision int32) *Modelled {
	for _, i := range m.Intents {
		if i.Key == key && i.Revision == revision {
			return i
		}
	}
	return nil
}

// Admit answers one admission; expires is its time to live, 0 for none, and the id is the store's for an accepted one.
func (m *Model) Admit(a intents.Admission, expires time.Duration, id uuid.UUID) intents.VerdictKind {
	key, revision := a.Identity.Key, a.Identity.Revision
	if i := m.find(key, revision); i != nil {
		if i.Sum == a.Fingerprint.Sum {
			return intents.Duplicate
		}
		return intents.Conflict
	}
	fresh := true
	for _, i := range m.Intents {
		if i.Key == key && i.Revision > revision {
			return intents.Superseded
		}
		fresh = fresh && i.Key != key
	}
	i := &Modelled{ID: id, Key: key, Revision: revision, Sum: a.Fingerprint.Sum, Priority: a.Priority, State: intents.Pending, Due: m.Now}
	if expires > 0 {
		i.Expires = m.Now + expires
	}
	for _, older := range m.Intents {
		if older.Key == key {
			older.Superseded = true
			if older.State == intents.Pending {
				m.wait(older, 0)
			}
		}
	}
	m.Intents = append(m.Intents, i)
	if fresh && a.ClaimNow {
		m.hold(i, Me)
	}
	return intents.Accepted
}

// wait puts an intent back to PENDING, or ends it where a newer revision stands.
func (m *Model) wait(i *Modelled, delay time.Duration) {
	switch {
	case !i.Superseded:
		i.State, i.Due = intents.Pending, m.Now+delay
	case i.Doubt:
		m.end(i, intents.UnknownState)
	default:
		m.end(i, intents.SupersededState)
	}
}

func (m *Model) end(i *Modelled, s intents.State) {
	i.State = s
	m.Events = append(m.Events, Event(i.Key, i.Revision, i.Generation, s))
}

// Event names an event as Model.Events does.
func Event(key dedup.Key, revision, generation int32, s intents.State) string {
	return fmt.Sprintf("%s/%d/%d/%s", key, revision, generation, s)
}

func (m *Model) hold(i *Modelled, owner string) {
	i.State, i.Generation, i.Owner, i.Lease, i.TakenOver = intents.Sending, i.Generation+1, owner, m.Now+Lease, false
}

// Claimable lists what may be claimed now.
func (m *Model) Claimable() []*Modelled {
	var out []*Modelled
	for _, i := range m.Intents {
		blocked := slices.ContainsFunc(m.Intents, func(o *Modelled) bool {
			return o.Key == i.Key && o.Revision < i.Revision && o.State == intents.Sending
		})
		if i.State == intents.Pending && i.Due <= m.Now && !m.late(i) && !blocked {
			out = append(out, i)
		}
	}
	return out
}

func (m *Model) late(i *Modelled) bool { return i.Expires > 0 && i.Expires <= m.Now }

// Claim says that the store gave the intent out.
func (m *Model) Claim(i *Modelled, owner string) { m.hold(i, owner) }

// Settle settles a claim; fenced when it is no longer its owner's.
func (m *Model) Settle(i *Modelled, s intents.Settlement) (fenced bool) {
	if i.State != intents.Sending || i.Generation != s.Generation || i.Owner != s.Owner {
		return true
	}
	t := s.Transition
	if i.Accepted && (t.To() == intents.Pending || t.To() == intents.UnknownState) {
		t = intents.Succeed(channels.Outcome{})
		if !s.Transition.Counted() {
			i.Attempts-- // below
		}
	}
	i.Doubt = t.To() != intents.Succeeded && (i.Doubt || t.Doubt())
	if t.Counted() {
		i.Attempts++
	}
	if t.PossibleDuplicate() && !i.Superseded {
		i.Duplicates++
	}
	if !s.NoAttempt {
		i.Tried++
	}
	if t.To() == intents.Pending {
		m.wait(i, t.Delay())
	} else {
		m.end(i, t.To())
	}
	return false
}

// Over lists the claims whose lease ran out.
func (m *Model) Over() (out []*Modelled) {
	for _, i := range m.Intents {
		if i.State == intents.Sending && i.Lease <= m.Now {
			out = append(out, i)
		}
	}
	return out
}

// Unsettled lists what the owner took over and has not settled.
func (m *Model) Unsettled(owner string) (out []*Modelled) {
	for _, i := range m.Intents {
		if i.State == intents.Sending && i.TakenOver && i.Owner == owner && i.Lease > m.Now {
			out = append(out, i)
		}
	}
	return out
}

// TakeOver says that the owner took the intent over.
func (m *Model) TakeOver(i *Modelled, owner string) {
	m.hold(i, owner)
	i.TakenOver = true
	i.Takeovers++
	i.Lost++
	i.Doubt = true
}

// Witness hears a late finisher's claim of that generation, which was taken over.
func (m *Model) Witness(i *Modelled, s intents.Settlement) (fenced bool) {
	if slices.Contains(i.Heard, s.Generation) {
		return true
	}
	i.Heard = append(i.Heard, s.Generation)
	state := i.State
	if state == intents.Sending && i.TakenOver {
		state = intents.UnknownState
	}
	to, ok := intents.Testimony(state, i.Doubt, i.Generation == s.Generation+1 && i.Duplicates == 0 && !i.Accepted, s.Outcome)
	if !ok {
		i.Accepted = i.Accepted || s.Outcome.Result() == channels.Accepted && !i.State.Terminal()
		return true
	}
	i.Doubt = false
	if to == intents.Pending {
		m.wait(i, 0)
	} else {
		m.end(i, to)
	}
	return false
}

// Cancel cancels what waits and is in no doubt.
func (m *Model) Cancel(i *Modelled) bool {
	if i.State == intents.Pending && !i.Doubt {
		m.end(i, intents.Cancelled)
	}
	return i.State == intents.Cancelled
}

// Sweep ends what is too late.
func (m *Model) Sweep() (n int) {
	for _, i := range m.Intents {
		if i.State != intents.Pending || !m.late(i) {
			continue
		}
		n++
		if i.Doubt {
			m.end(i, intents.UnknownState)
		} else {
			m.end(i, intents.Expired)
		}
	}
	return n
}
