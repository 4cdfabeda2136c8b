package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
)

// These checks hold the providers' ledger against the record.

// seenTwice: a fact has at most one effect that a person sees. A replaceable one may be shown again, in its own place, in which its newer
// revisions are shown, too.
func seenTwice(a *account) (out []string) {
	places := map[identity]string{}
	for _, e := range a.effects {
		fact := e.of
		fact.revision = 0
		if place, ok := places[fact]; ok && place != e.slot && !e.unread {
			out = append(out, fmt.Sprintf("%v is shown in two places, %s and %s", e.of, place, e.slot))
		}
		if !e.unread {
			places[fact] = e.slot
		}
	}
	for of, calls := range a.calls {
		if n := applied(calls); n > 1 && a.record[of].Guarantee != "replaceable" {
			out = append(out, fmt.Sprintf("%v was applied %d times; it is %s", of, n, a.record[of].State))
		}
	}
	return out
}

// untrue: what the record says of the effect is what the ledger says.
func untrue(a *account) (out []string) {
	for _, in := range a.intents {
		of := named(in.Intent)
		seen := applied(a.calls[of])
		switch state := intents.State(in.State); {
		case state == intents.Succeeded && seen == 0:
			out = append(out, fmt.Sprintf("%v (%s) is succeeded, and the provider has not applied it", of, in.ID))
		case state.Terminal() && state != intents.Succeeded && seen > 0:
			out = append(out, fmt.Sprintf("%v (%s) is %s, and the provider has applied it", of, in.ID, in.State))
		case state == intents.Rejected && !slices.ContainsFunc(a.calls[of], func(e effect) bool { return e.answer == answerRefused }):
			out = append(out, fmt.Sprintf("%v (%s) is rejected, and the provider has not refused it", of, in.ID))
		}
	}
	return out
}

// withoutIntent: nothing is sent but for an intent of that caller, and no poison is ever.
func withoutIntent(a *account) (out []string) {
	for of, calls := range a.calls {
		if _, ok := a.record[of]; !ok {
			out = append(out, fmt.Sprintf("%d calls for %v, which is no intent", len(calls), of))
		}
	}
	return out
}

// callsDiffer: every call of an intent bears the same key and the same bytes, and no other intent's key.
func callsDiffer(a *account) (out []string) {
	owners := map[string]identity{}
	for of, calls := range a.calls {
		calls = slices.DeleteFunc(slices.Clone(calls), func(e effect) bool { return e.unread })
		for _, e := range calls {
			first := calls[0]
			if e.key == "" && e.slot == "" || e.key != first.key || e.body != first.body || e.slot != first.slot || e.mismatch {
				out = append(out, fmt.Sprintf("%v: a call had the key %q and body %s, the first one %q and %s", of, e.key, e.body, first.key, first.body))
			}
			name := e.channel + " " + e.key
			if owner, ok := owners[name]; ok && owner != of && e.key != "" {
				out = append(out, fmt.Sprintf("%v and %v share the key %q", of, owner, e.key))
			}
			owners[name] = of
		}
	}
	return out
}

// slack is what may lie between two readings of one clock in two processes of a busy machine.
const slack = 2 * time.Second

// begunLate: a call begins while a claim of its intent stands.
func begunLate(a *account) (out []string) {
	for of, calls := range a.calls {
		for _, e := range calls {
			if !slices.ContainsFunc(a.record[of].Attempts, func(t admin.Attempt) bool {
				early := slack
				if t.Code != "lease-over" { // else the claim's own time; this one is reckoned back from its settlement, which can have been held up
					early += a.longest()
				}
				return e.begun.After(t.StartedAt.Add(-early)) && e.begun.Before(t.StartedAt.Add(a.lease))
			}) {
				out = append(out, fmt.Sprintf("%v: a call began at %s, and no claim stood", of, e.begun.Format(time.RFC3339Nano)))
			}
		}
	}
	return out
}

// longest is how long a settlement can be on its way to the database: a process that is stopped for longer finds its claim gone.
func (a *account) longest() time.Duration { return a.lease + 10*time.Second }

// repeatedInDoubt: where a repeat would be seen nothing follows a call of which nobody knows how it ended.
func repeatedInDoubt(a *account) (out []string) {
	for of, calls := range a.calls {
		if a.record[of].Guarantee != "duplicate-visible" {
			continue
		}
		for i, e := range calls[:len(calls)-1] {
			if e.doubtful() && !e.unread || e.applied {
				out = append(out, fmt.Sprintf("%v was called again after %s (%s)", of, calls[i].answer, calls[i].mishap))
			}
		}
	}
	return out
}

// olderAfterNewer: once a newer revision of a fact has been sent, no older one is.
func olderAfterNewer(a *account) (out []string) {
	newest := map[identity]effect{}
	var all []effect
	for _, calls := range a.calls {
		all = append(all, calls...)
	}
	slices.SortStableFunc(all, func(a, b effect) int { return a.begun.Compare(b.begun) })
	for _, e := range all {
		fact := e.of
		fact.revision = 0
		if n, ok := newest[fact]; ok && n.of.revision > e.of.revision {
			out = append(out, fmt.Sprintf("%v was sent after revision %d", e.of, n.of.revision))
			continue
		}
		newest[fact] = e
	}
	return append(out, shownLast(a)...)
}

// shownLast: where notifications replace each other the newest revision that was taken is what is shown in the end. A provider that answers
// after the sender's time may also act after it: nobody can keep such a call from coming late.
func shownLast(a *account) (out []string) {
	newest, last, late := map[string]effect{}, map[string]effect{}, map[string]bool{}
	for _, e := range a.effects {
		if e.slot == "" || !e.applied {
			continue
		}
		if n, ok := newest[e.slot]; !ok || e.of.revision > n.of.revision {
			newest[e.slot] = e
		}
		last[e.slot], late[e.slot] = e, late[e.slot] || e.answer == answerLate
	}
	for slot, e := range last {
		if !late[slot] && e.of.revision != newest[slot].of.revision {
			out = append(out, fmt.Sprintf("%v is shown, and revision %d was taken", e.of, newest[slot].of.revision))
		}
	}
	return out
}

// notOnRecord: every call stands on record as an attempt.
func notOnRecord(a *account) (out []string) {
	for of, calls := range a.calls {
		if in, ok := a.record[of]; ok && len(calls) > len(in.Attempts) {
			out = append(out, fmt.Sprintf("%v (%s) has %d attempts on record, and %d calls came", of, in.ID, len(in.Attempts), len(calls)))
		}
	}
	return out
}

// misread: what the provider answered is what the attempts say, where they do not say that nobody knows.
func misread(a *account) (out []string) {
	for of, calls := range a.calls {
		in, ok := a.record[of]
		if !ok {
			continue
		}
		count := func(yes func(effect) bool) (n int) {
			for _, e := range calls {
				if yes(e) {
					n++
				}
			}
			return n
		}
		recorded := func(result string) (n int) {
			for _, t := range in.Attempts {
				if t.Result == result {
					n++
				}
			}
			return n
		}
		accepted := count(func(e effect) bool { return e.answer == answerAccepted || e.answer == answerLate })
		refused := count(func(e effect) bool { return e.answer == answerRefused })
		doubtful := count(func(e effect) bool { return !e.unread && (e.answer == answerNone || e.answer == answerVague) })
		for _, c := range []struct {
			result   string
			min, max int
		}{{"accepted", 0, accepted}, {"refused", 0, refused}, {"unknown", doubtful, len(in.Attempts)}} {
			if n := recorded(c.result); n < c.min || n > c.max {
				out = append(out, fmt.Sprintf("%v (%s) has %d attempts that were %s; by the provider's answers there were %d to %d", of, in.ID, n, c.result, c.min, c.max))
			}
		}
	}
	return out
}
