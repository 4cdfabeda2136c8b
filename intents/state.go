package intents

// State is the state of an intent. The zero value is no state.
type State string

// States. One spelling in JSON, SQL, metrics and the command line.
const (
	Pending         State = "pending"
	Sending         State = "sending"
	Succeeded       State = "succeeded"
	Rejected        State = "rejected"
	UnknownState    State = "unknown"
	Expired         State = "expired"
	SupersededState State = "superseded"
	Cancelled       State = "cancelled"
	Exhausted       State = "exhausted"
	Abandoned       State = "abandoned"
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
