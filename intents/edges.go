package intents

// Edge is one way from a state to another. From is "" for admission.
type Edge struct {
	From, To State
	Cause    string // who or what makes it, as the drawing in doc.go says it
}

// Edges returns every way that an intent can go; what is not here does not happen. doc.go draws this table, and a test holds the
// two together. Leaving a terminal state takes an operator, and only EXHAUSTED can be left.
func Edges() []Edge {
	return []Edge{
		{"", Pending, "admitted"},
		{"", Sending, "admitted and claimed in one statement"},

		{Pending, Sending, "claimed: generation+1, lease"},
		{Pending, Expired, "expires_at passed"},
		{Pending, SupersededState, "a newer revision was admitted"},
		{Pending, Cancelled, "its caller took it back, or its recipient was erased; never in doubt"},
		{Pending, UnknownState, "in doubt, and expired, superseded or erased; restored from a backup, where a repeat could be seen"},
		{Pending, Succeeded, "in doubt, and evidence: accepted"},
		{Pending, Pending, "restored from a backup, where a repeat is harmless: in doubt, generation+1"},

		{Sending, Succeeded, "accepted; evidence: accepted"},
		{Sending, Rejected, "refused"},
		{Sending, Pending, "not sent, throttled, handed back: back-off; unknown, lease over or restored, where a repeat is harmless: same keys, same bytes"},
		{Sending, UnknownState, "unknown, lease over or restored, where a repeat could be seen; any end in doubt but accepted"},
		{Sending, Exhausted, "not sent, and attempts or time are used up, or its content is gone"},
		{Sending, Expired, "not sent, and expires_at passed"},
		{Sending, SupersededState, "not sent, and a newer revision was admitted"},
		{Sending, Sending, "lease over: taken over, generation+1"},

		{UnknownState, Succeeded, "evidence: accepted; decision: delivered"},
		{UnknownState, Rejected, "evidence: refused, and nothing else is in doubt"},
		{UnknownState, Pending, "evidence: not sent, and nothing else is in doubt; decision: not delivered (same keys)"},
		{UnknownState, SupersededState, "the same, and a newer revision was admitted"},
		{UnknownState, Abandoned, "decision: abandon"},

		{Exhausted, Pending, "decision: redrive"},
	}
}

// Leads reports whether there is an edge between the two states.
func Leads(from, to State) bool {
	for _, e := range Edges() {
		if e.From == from && e.To == to {
			return true
		}
	}
	return false
}
