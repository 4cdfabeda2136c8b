package intents

import "github.com/onebell/onebell/channels"

// Testimony decides what evidence about an effect does to an intent; ok is false when it only stands on record.
//
//   - accepted settles an intent that is UNKNOWN (a takeover that is not settled yet counts as such), or PENDING in doubt: the effect is there, nothing more is to be sent.
//   - "provably not sent" and "refused" settle only an UNKNOWN intent, and only when they speak of everything in doubt.
//     While a sender is at it, accepted is kept: what would end as PENDING or UNKNOWN then ends as SUCCEEDED.
//   - a settled intent is never changed.
//
// soleDoubt says that the evidence speaks of every attempt in doubt: of the sole one, or, as a look-up does, of the effect key that all
// of them have.
func Testimony(present State, doubt, soleDoubt bool, o channels.Outcome) (to State, ok bool) {
	switch {
	case o.Result() == channels.Accepted && (present == UnknownState || present == Pending && doubt):
		return Succeeded, true
	case present != UnknownState || !soleDoubt:
		return "", false
	case o.Result() == channels.Refused:
		return Rejected, true
	case o.Result() == channels.NotSent, o.Result() == channels.Throttled, o.Result() == channels.Misconfigured:
		return Pending, true
	}
	return "", false
}
