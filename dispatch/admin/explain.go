package admin

import (
	"fmt"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// Explanation tells an operator in three sentences or so where an intent stands.
type Explanation struct {
	Happened  string `json:"happened" doc:"What happened."`
	Guarantee string `json:"guarantee" doc:"What the channel's guarantee means for this intent."`
	Next      string `json:"next" doc:"What to do next, if anything."`
}

// Explain puts a record into words. It is pure. The guarantee is the one that the intent was admitted under; c is the channel's
// present contract, zero where this process does not know the channel.
func Explain(r intents.Record, c channels.Contract) Explanation {
	return Explanation{Happened: happened(r), Guarantee: promise(r.Intent, c), Next: next(r.Intent, c)}
}

func happened(r intents.Record) string {
	in := r.Intent
	why := reason(in.Code, in.Message)
	switch in.State {
	case intents.Pending:
		return waiting(in, why)
	case intents.Sending:
		return fmt.Sprintf("The dispatcher %s claimed it (generation %d) and is sending it.", in.Owner, in.Generation)
	case intents.Succeeded:
		if in.ProviderID != "" {
			return "The provider accepted it as " + in.ProviderID + ". Accepted is not yet delivered, and not read."
		}
		return "The provider accepted it. Accepted is not yet delivered, and not read."
	case intents.Rejected:
		return "The provider refused it for good" + why + "."
	case intents.UnknownState:
		return "An attempt was made" + reached(r) + ", and nobody knows whether the provider applied it" + why + "."
	case intents.Expired:
		return "Its time was over (expires_at) before it could be sent. Nothing was sent."
	case intents.SupersededState:
		return "A newer revision of the same fact was admitted before this one was sent. This one was not sent."
	case intents.Cancelled:
		return "It was cancelled before it was sent" + by(r, intents.Cancelled) + ". Nothing was sent."
	case intents.Exhausted:
		return fmt.Sprintf("Each of its %s failed before it could have an effect, and no more are allowed%s. Nothing was sent.", count(in.Attempts, "attempt"), why)
	case intents.Abandoned:
		return "Nobody could find out whether it was sent, and it was given up" + by(r, intents.Abandoned) + "."
	}
	return "Its state is not one that this version knows; a newer dispatcher may have written it."
}

func waiting(in intents.Intent, why string) string {
	switch {
	case in.Doubt:
		return "An attempt was made and nobody knows whether the provider applied it" + why + ". It is going to be repeated with the same key and the same bytes."
	case in.Attempts > 0:
		return fmt.Sprintf("It was tried, and provably nothing was applied (%s so far)%s. It is going to be tried again.", count(in.Attempts, "attempt"), why)
	case in.Generation > 0:
		return "It was claimed, and provably nothing was applied" + why + ". It is going to be tried again."
	}
	return "It was admitted and has not been tried yet."
}

// reached says how far the last attempt of which nobody knows the end got.
func reached(r intents.Record) string {
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		if a := r.Attempts[i]; a.Result == channels.Unknown.String() && a.Phase != "" {
			return " that got as far as " + a.Phase
		}
	}
	return ""
}

// by names who brought the intent to that state, and why.
func by(r intents.Record, to intents.State) string {
	for i := len(r.Changes) - 1; i >= 0; i-- {
		if c := r.Changes[i]; c.To == to && c.Actor != "" {
			return " by " + c.Actor + reason("", c.Detail)
		}
	}
	return ""
}

func promise(in intents.Intent, c channels.Contract) string {
	var text string
	switch in.Guarantee {
	case channels.Keyed:
		text = "keyed: the provider drops repeats of this intent's effect key while it remembers the key, so that repeating it then has no second effect."
		if c.KeyWindow > 0 && !in.FirstUsedAt.IsZero() {
			text += fmt.Sprintf(" It remembers it for %v after the first use, until %s.", c.KeyWindow, stamp(in.FirstUsedAt.Add(c.KeyWindow)))
		}
	case channels.Replaceable:
		text = "replaceable: a repeat replaces the notification that is shown; it may alert a second time."
	case channels.DuplicateVisible:
		text = "duplicate-visible: the provider cannot tell a repeat, the receiver would see it. So it is never repeated while nobody knows how an attempt ended."
	default:
		text = "The guarantee is not one that this version knows."
	}
	if in.PossibleDuplicates > 0 {
		text += fmt.Sprintf(" It was resent %s while nobody knew how the attempt before had ended.", count(in.PossibleDuplicates, "time"))
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// until names an instant, or nothing for a time that does not apply.
func until(prefix string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return prefix + stamp(t)
}
