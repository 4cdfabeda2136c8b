package main

import (
	"fmt"
	"slices"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// These checks hold the producers' log against the record.

// leftOpen: in the end every intent is terminal or UNKNOWN.
func leftOpen(a *account) (out []string) {
	for _, in := range a.intents {
		if state := intents.State(in.State); !state.Terminal() && state != intents.UnknownState {
			out = append(out, fmt.Sprintf("%v (%s) is %s", named(in.Intent), in.ID, in.State))
		}
	}
	return out
}

// place is where a request stood in the stream. A stream that was made anew counts anew: the key tells such requests apart.
type place struct {
	seq uint64
	key string
}

// refusedAt is the refusals by place; "" for the key finds them as well.
func (a *account) refusedAt() map[place]admin.Refusal {
	out := map[place]admin.Refusal{}
	for _, r := range a.refusals {
		if r.StreamSeq > 0 {
			out[place{r.StreamSeq, r.Key}], out[place{r.StreamSeq, ""}] = r, r
		}
	}
	return out
}

// lost: every request that the broker stored, or that was answered, is on record as what it was answered.
func lost(a *account) (out []string) {
	refused := a.refusedAt()
	submitted := map[string]int{} // refusals that came by no stream
	for _, r := range a.refusals {
		if r.StreamSeq == 0 {
			submitted[fmt.Sprint(identity{r.Caller, r.Channel, r.Key, r.Revision}, r.Verdict)]++
		}
	}
	for _, t := range a.told {
		in, admitted := a.record[t.of]
		answered := fmt.Sprint(t.of, t.verdict)
		switch {
		case t.stored && t.poison != "":
			if _, ok := refused[place{t.seq, ""}]; !ok {
				out = append(out, fmt.Sprintf("%s at %d in the stream left no refusal", t.poison, t.seq))
			}
		case t.stored:
			if _, ok := refused[place{t.seq, t.of.key}]; !ok && !admitted {
				out = append(out, fmt.Sprintf("%v at %d in the stream left neither an intent nor a refusal", t.of, t.seq))
			}
		case t.verdict.Admitted() && in.ID != t.intent:
			out = append(out, fmt.Sprintf("%v was %s as %s, and the record has %q", t.of, t.verdict, t.intent, in.ID))
		case t.verdict != "" && !t.verdict.Admitted():
			if submitted[answered]--; submitted[answered] < 0 {
				out = append(out, fmt.Sprintf("%v was answered %s, and no refusal is on record", t.of, t.verdict))
			}
		}
	}
	return out
}

// severalMeanings: of what was told under one identity one meaning was admitted, every other is a refusal, and nothing of it was sent.
func severalMeanings(a *account) (out []string) {
	refused := a.refusedAt()
	ids := map[identity]string{}
	for _, in := range a.intents {
		if other, ok := ids[named(in.Intent)]; ok {
			out = append(out, fmt.Sprintf("%v is two intents, %s and %s", named(in.Intent), other, in.ID))
		}
		ids[named(in.Intent)] = in.ID
	}
	for of, tries := range a.tries {
		var taken []variant
		for _, t := range tries {
			_, no := refused[place{t.seq, t.of.key}]
			if t.way != cancelling && (t.stored && !no || t.verdict.Admitted()) && !slices.Contains(taken, t.variant) {
				taken = append(taken, t.variant)
			}
		}
		if len(taken) > 1 {
			out = append(out, fmt.Sprintf("%v was taken with the meanings %q", of, taken))
		}
		for _, e := range a.calls[of] {
			if !e.unread && len(taken) > 0 && !slices.Contains(taken, e.variant) {
				out = append(out, fmt.Sprintf("%v was sent with the meaning %q, which was refused", of, e.variant))
			}
		}
	}
	return out
}

// rememberedWrongly: what is older than the horizon is refused and never sent; what is younger, and sound, is never refused.
func rememberedWrongly(a *account) (out []string) {
	for of, tries := range a.tries {
		if _, ok := a.record[of]; ok && tries[0].sort == stale {
			out = append(out, fmt.Sprintf("%v is older than the horizon, and was admitted", of))
		}
	}
	for _, r := range a.refusals {
		of := identity{r.Caller, r.Channel, r.Key, r.Revision}
		tries := a.tries[of]
		switch {
		case len(tries) == 0: // poison
		case r.Verdict == string(wire.Stale) && tries[0].sort != stale && tries[0].sort != aged,
			r.Verdict == string(wire.Refused) && !(tries[0].sort == expiring && r.Code == wire.CodeExpired),
			r.Verdict == string(wire.Conflict) && tries[0].sort != disputed && tries[0].sort != storm,
			r.Verdict == string(wire.Superseded) && !a.newerThan(of):
			out = append(out, fmt.Sprintf("%v was refused as %s (%s)", of, r.Verdict, r.Code))
		}
	}
	return out
}

// newerThan reports whether a newer revision was admitted.
func (a *account) newerThan(of identity) bool {
	for other := range a.record {
		if other.revision > of.revision && other.caller == of.caller && other.channel == of.channel && other.key == of.key {
			return true
		}
	}
	return false
}

// wrongState: an intent ends in a state that something asked for.
func wrongState(a *account) (out []string) {
	for _, in := range a.intents {
		of := named(in.Intent)
		var s sort
		var cancelledBy wire.CancelResult
		for _, t := range a.tries[of] {
			if s = t.sort; t.cancelled == wire.CancelDone {
				cancelledBy = t.cancelled
			}
		}
		state := intents.State(in.State)
		ok := map[intents.State]bool{
			intents.Expired: s == expiring, intents.Cancelled: s == cancelled, intents.Rejected: s == departed,
			intents.SupersededState: a.newerThan(of), intents.Exhausted: false, intents.Abandoned: false,
		}
		if allowed, listed := ok[state]; listed && !allowed {
			out = append(out, fmt.Sprintf("%v (%s) is %s (%s)", of, in.ID, state, in.Code))
		}
		if cancelledBy != "" && state != intents.Cancelled {
			out = append(out, fmt.Sprintf("%v (%s) is %s, and its producer was told that it was cancelled", of, in.ID, state))
		}
		if state == intents.Succeeded && s == departed {
			out = append(out, fmt.Sprintf("%v (%s) is succeeded, and its recipient is gone", of, in.ID))
		}
	}
	return out
}
