package sandbox

import (
	"maps"
	"slices"
	"time"

	"github.com/onebell/onebell/channels"
)

// play is one word of a script: what the provider that is not there does.
type play struct {
	arrives bool // the request comes through whole
	applies bool // and has its effect
	waits   bool // nothing more comes until the attempt is over
	outcome func() channels.Outcome
}

var plays = map[string]play{
	"accepted": {arrives: true, applies: true, outcome: func() channels.Outcome {
		return channels.OutcomeAccepted("", "accepted", "the script says so")
	}},
	// the pair of every lost reply: it happened, and it did not
	"unknown":           {arrives: true, applies: true, outcome: lost},
	"unknown-unapplied": {arrives: true, outcome: lost},
	"silence":           {arrives: true, applies: true, waits: true, outcome: lost},
	"refused": {arrives: true, outcome: func() channels.Outcome {
		return channels.OutcomeRefused("refused", "the script says so")
	}},
	"dead-recipient": {arrives: true, outcome: func() channels.Outcome {
		return channels.OutcomeDeadRecipient("dead-recipient", "the script says so")
	}},
	"throttled": {arrives: true, outcome: func() channels.Outcome {
		return channels.OutcomeThrottled(time.Second, "throttled", "the script says so")
	}},
	"not-sent": {outcome: func() channels.Outcome {
		return channels.OutcomeNotSent(channels.PhaseConnect, "not-sent", "the script says so")
	}},
	"stall": {waits: true, outcome: func() channels.Outcome {
		return channels.OutcomeNotSent(channels.PhaseConnect, "timeout", "nothing was opened before the attempt was over")
	}},
	"misconfigured": {outcome: func() channels.Outcome {
		return channels.OutcomeMisconfigured(channels.PhaseConnect, "misconfigured", "the script says so")
	}},
	"panic": {arrives: true, applies: true, outcome: func() channels.Outcome { panic("the script says panic") }},
}

func lost() channels.Outcome {
	return channels.OutcomeUnknown(channels.PhaseCommitted, "reply-lost", "the script lost the reply")
}

// Words returns what a script may hold.
func Words() []string { return slices.Sorted(maps.Keys(plays)) }
