package intents

// State is the state of an intent. The zero value is no state.
type State string

// States. One spelling in JSON, SQL, metrics and the command line.
const (
	Pending         State = "pending"    // on record; nobody works on it now
	Sending         State = "sending"    // claimed: an owner may be at it until the lease ends
	Succeeded       State = "succeeded"  // the provider accepted it
	Rejected        State = "rejected"   // the provider will never take it
	UnknownState    State = "unknown"    // it may have been sent; it waits for evidence or a person
	Expired         State = "expired"    // not sent, and too late now
	SupersededState State = "superseded" // not sent, because a newer revision was admitted
	Cancelled       State = "cancelled"  // not sent, because its caller took it back
	Exhausted       State = "exhausted"  // not sent; attempts or time are used up
	Abandoned       State = "abandoned"  // an operator gave up on an unknown one
)

// States lists all states.
func States() []State {
	return []State{Pending, Sending, Succeeded, Rejected, UnknownState, Expired, SupersededState, Cancelled, Exhausted, Abandoned}
}

// Terminal reports whether the service itself will never leave this state. Leaving Exhausted takes an operator's redrive;
// nothing else leaves a terminal state.
func (s State) Terminal() bool {
	switch s {
	case Succeeded, Rejected, Expired, SupersededState, Cancelled, Exhausted, Abandoned:
		return true
	}
	return false
}

// ParseState returns the state of that name.
func ParseState(name string) (State, bool) {
	for _, s := range States() {
		if string(s) == name {
			return s, true
		}
	}
	return "", false
}
