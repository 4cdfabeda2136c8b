package admin

import (
	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// next says what a person should do. Every command that it names exists.
func next(in intents.Intent, c channels.Contract) string {
	switch in.State {
	case intents.Pending:
		return nextPending(in, c)
	case intents.Sending:
		return "Nothing. It settles by itself; if its dispatcher is gone, another one takes it over" + until(" after ", in.LeaseUntil) + afterTakeover(in.Guarantee) + "."
	case intents.Succeeded:
		return "Nothing. If the receiver misses it, ask the provider with the provider id or the effect key."
	case intents.Rejected:
		return nextRejected(in)
	case intents.UnknownState:
		return nextUnknown(in, c)
	case intents.Expired:
		return "Nothing, if it is no longer wanted. If it still is, publish the fact under its next revision with a later expires_at."
	case intents.SupersededState:
		return "Look at the newer revision" + supersededBy(in) + "."
	case intents.Cancelled:
		return "Nothing. If it is wanted after all, publish the fact under its next revision."
	case intents.Exhausted:
		return "Mend what the code names (onebell doctor checks the connections). Then publish the fact under its next revision if it is still wanted."
	case intents.Abandoned:
		return "Nothing. A publication under the next revision may be a second notification: the first may have arrived."
	}
	return "Ask the newest dispatcher, or bring this one to its version."
}

func nextPending(in intents.Intent, c channels.Contract) string {
	text := "Nothing: the next attempt is due" + until(" at ", in.NextAttemptAt) + "."
	if in.NextAttemptAt.IsZero() {
		text = "Nothing: it is going to be claimed as soon as a sender is free."
	}
	if c.Guarantee == "" {
		return text + " This process does not know the channel " + in.Identity.Channel + "; one that does must run (ONEBELL_CHANNELS)."
	}
	text += " If it stays like this, GET /v1/channels shows whether the channel is paused, and onebell doctor why."
	if !in.Doubt {
		text += " It can still be cancelled (onebell cancel)."
	}
	return text
}

func afterTakeover(g channels.Guarantee) string {
	switch g {
	case channels.Keyed:
		return " and sends it again with the same key and the same bytes"
	case channels.Replaceable:
		return " and, where the channel is set to resend, sends it again to replace the first"
	default:
		return " and marks it unknown, because a repeat would be seen"
	}
}

func nextRejected(in intents.Intent) string {
	if in.DeadRecipient {
		return "Do not use this recipient again; the producer was told by an event. It is not tried again."
	}
	return "It is not tried again. Correct what the provider objects to, then publish the fact under its next revision."
}

// nextUnknown: the guarantee decides what a second publication would mean, the contract what may still find out.
func nextUnknown(in intents.Intent, c channels.Contract) string {
	text := "Find out whether it arrived: look for the effect key " + in.EffectKey + " at the provider, or ask the receiver."
	switch c.LookUp {
	case channels.LookUpPull:
		text += " The provider can be asked about the key, and a definite answer settles it."
	case channels.LookUpEvents:
		text += " The provider reports deliveries, and a definite report settles it."
	}
	switch in.Guarantee {
	case channels.Keyed:
		return text + " It is not sent again by itself: whether the provider still remembers the key is no longer certain. A publication under the next revision has a key of its own, so it may be a second effect."
	case channels.Replaceable:
		return text + " It is not sent again by itself. A publication under the next revision replaces what is shown, and may alert a second time."
	default:
		return text + " It is not sent again by itself. A publication under the next revision is a second notification if the first did arrive."
	}
}

func supersededBy(in intents.Intent) string {
	if id := identifier(in.SupersededBy); id != nil {
		return ": GET /v1/intents/" + *id
	}
	return " of the same key"
}
