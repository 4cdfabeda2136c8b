package intents

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
)

// Relic is an open intent as a restored backup has it.
type Relic struct {
	ID         uuid.UUID
	Generation int32
	State      State
	Channel    string
	Guarantee  channels.Guarantee // under which it was admitted
	Owner      string             // SENDING: who was at it

	Doubt      bool
	Accepted   bool // evidence said so while a sender was at it
	Superseded bool // by a revision that the backup has, too
	Marked     bool // by an earlier Restoration, and not touched since

	DueAt       time.Time // PENDING: before then nobody can have claimed it
	UpdatedAt   time.Time
	ClaimedAt   time.Time // zero: never
	FirstUsedAt time.Time // zero: never
	ReachedAt   time.Time // the first attempt on record that may have reached the provider; zero: none
}

// Restoration says what to make of a database that was restored from a backup: old truth. What it has as open may have been sent in the gap
// between the backup and the end of the last dispatcher that worked on what came after.
type Restoration struct {
	Act
	Until   time.Time // the end of the gap; zero: now, by the database's clock
	Refuse  bool      // what occurred up to then and is not remembered is refused from now on: it may have been sent
	Stopped bool      // leases that still stand are the backup's: whoever ran the command vouches that no dispatcher runs
	DryRun  bool      // say what would be done, and do nothing
}

// Restored is what a Restoration did.
type Restored struct {
	Run       uuid.UUID // in the audit; zero for a dry run
	Until     time.Time
	Watermark time.Time // zero: none
	Channels  []RestoredChannel
}

// RestoredChannel counts what was open on one channel.
type RestoredChannel struct {
	Channel   string
	Unknown   int // may have been sent; UNKNOWN now
	InDoubt   int // may have been sent; keyed, so it goes out under the same key again, inside the key window
	Succeeded int // evidence had it as accepted already
	NotDue    int // cannot have been sent yet, so it waits as before
	Before    int // marked by an earlier run
}

// AfterRestore decides what becomes of an open intent in a restored database. It is pure. The intent may have been sent at any time from
// the backup to until, the end of the gap, and nobody remembers. firstUse is the earliest time at which its effect key can have been
// used first: BeforeSend counts the key window from there. ok is false for what stays as it is.
func AfterRestore(r Relic, until time.Time) (to State, firstUse time.Time, ok bool) {
	switch {
	case r.State != Pending && r.State != Sending,
		r.State == Pending && (r.Marked || r.DueAt.After(until)):
		return "", time.Time{}, false
	case r.Accepted:
		return Succeeded, r.firstUse(), true
	case r.Guarantee == channels.Keyed && !r.Superseded:
		return Pending, r.firstUse(), true
	}
	return UnknownState, r.firstUse(), true
}

// firstUse is a time before which no attempt that is in doubt can have begun. One that the gap swallowed began after the last change
// that the backup knows.
func (r Relic) firstUse() time.Time {
	switch {
	case !r.FirstUsedAt.IsZero() && (r.Doubt || r.State == Sending):
		return r.FirstUsedAt
	case !r.ReachedAt.IsZero(): // a receiver may take note of a key that it puts off
		return r.ReachedAt
	case r.State == Pending && r.DueAt.After(r.UpdatedAt):
		return r.DueAt
	}
	return r.UpdatedAt
}
