package intents

import "time"

// PurgeKind is something that is forgotten with time. Its value is a label of metrics.
type PurgeKind string

// Kinds, in the order in which a purge goes through them.
const (
	PurgeKeys     PurgeKind = "keys"     // of a fact, all its revisions together, and only behind the watermark
	PurgeContents PurgeKind = "contents" // recipient and content; the recipient's keyed hash stays with the intent
	PurgeIntents  PurgeKind = "intents"  // with attempts, changes and evidence; never while a key leads to it
	PurgeRefusals PurgeKind = "refusals" // by their own time; no key leads to one
)

// PurgeKinds lists all kinds.
func PurgeKinds() []PurgeKind {
	return []PurgeKind{PurgeKeys, PurgeContents, PurgeIntents, PurgeRefusals}
}

// PurgeMark is the place of a row in the order in which a kind is walked through. The zero value lies before all rows.
type PurgeMark struct {
	At time.Time // keys: the fact's; refusals: when it was refused; else zero
	ID [16]byte
}

// Before returns the mark just before m, so that a walk that goes on after it comes to m.
func (m PurgeMark) Before() PurgeMark {
	for i := len(m.ID) - 1; i >= 0; i-- {
		m.ID[i]--
		if m.ID[i] != 0xff {
			return m
		}
	}
	if m.At.IsZero() {
		return PurgeMark{} // nothing lies before the zero value
	}
	m.At = m.At.Add(-time.Microsecond)
	return m
}

// PurgeRow is one row that is old enough to be looked at.
type PurgeRow struct {
	Mark PurgeMark
	Age  time.Duration // by the database's clock, since: the fact (keys), the end (contents, intents), the refusal
	Ripe bool          // it may go; if not, somebody still needs it
}

// Watermark is the instant up to which keys may have been forgotten: a request for a fact that is not younger is refused, unless its key
// is remembered.
type Watermark struct {
	At  time.Time // zero: it was never moved
	Now time.Time // the database's clock when it was read
}

// TerminalStates lists the terminal states by name. What is not among them, also a state that a later version may have, is left alone.
func TerminalStates() (names []string) {
	for _, s := range States() {
		if s.Terminal() {
			names = append(names, string(s))
		}
	}
	return names
}
