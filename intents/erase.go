package intents

import "github.com/google/uuid"

// Act is who does something to the data by hand: what the audit keeps of it.
type Act struct {
	Actor  string // a person
	Reason string // in that person's words; it must not hold what is to be forgotten
	Place  string // the host that it is done from
}

// Erasure is a data subject's request to be forgotten.
type Erasure struct {
	Act
	Hashes     [][]byte // keyed hashes of the forms in which the recipient may be stored; any of them
	CancelOpen bool     // end what waits to be sent, so that it can be forgotten, too
	DryRun     bool     // say what would be done, and do nothing
}

// Erased is what an Erasure did.
type Erased struct {
	Run       uuid.UUID   // in the audit; zero for a dry run
	Looked    int64       // intents looked at
	Found     int         // intents of this recipient
	Erased    int         // of these, how many lost something now; what was erased before is not among them
	Cancelled []uuid.UUID // ended now, nothing having been sent
	Unknown   []uuid.UUID // UNKNOWN, and forgotten: nobody knows whether they were sent, and they never can be again
	Left      []Unerased  // not forgotten
	Channels  []string    // of all intents looked at, sorted
}

// Unerased is an intent that an Erasure left as it is.
type Unerased struct {
	ID      uuid.UUID
	Channel string
	State   State
}

// Erase decides what an Erasure does to an intent: the state that it has then, and whether its content is forgotten. It is pure.
//
// What is being sent is left to its sender: it holds the content already, and may need the stored one for another attempt. What waits is
// forgotten only where it may be ended first. In doubt nobody may say that nothing was sent, so it ends UNKNOWN. A state of a newer
// version is left alone.
func Erase(s State, doubt, cancelOpen bool) (to State, forget bool) {
	switch {
	case s.Terminal() || s == UnknownState:
		return s, true
	case s == Pending && cancelOpen && doubt:
		return UnknownState, true
	case s == Pending && cancelOpen:
		return Cancelled, true
	}
	return s, false
}
