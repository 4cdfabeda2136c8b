package main

import (
	"slices"
	"testing"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/dispatch/wire"
)

var begun = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }

func attempt(generation int32, begin, end int, result string) admin.Attempt {
	return admin.Attempt{Generation: generation, StartedAt: at(begin), EndedAt: at(end), Result: result}
}

func intent(id string, of identity, guarantee, state string, generation int32, attempts ...admin.Attempt) admin.IntentDetail {
	return admin.IntentDetail{Intent: admin.Intent{
		ID: id, Caller: of.caller, Channel: of.channel, Key: of.key, Revision: of.revision, Guarantee: guarantee, State: state, Generation: generation,
	}, Attempts: attempts}
}

func call(of identity, begin int, a answer) effect {
	return effect{
		channel: of.channel, of: of, variant: "a", key: "k-" + of.String(), body: "b-" + of.String(), to: "to " + of.String(), begun: at(begin), at: at(begin), answer: a,
	}
}

func accepted(of identity, begin int) effect {
	e := call(of, begin, answerAccepted)
	e.applied = true
	return e
}

func event(id string, generation string, what wire.What) wire.Event {
	return wire.Event{ID: id + "-" + generation + "-" + string(what), Intent: id, What: what, Admitted: true}
}

// Facts of the sound account.
var (
	paid     = identity{"shop", "mail", "order:1", 0}
	hooked   = identity{"shop", "keyed", "order:2", 0} // the first reply was lost, the second call a repeat
	doubted  = identity{"depot", "plain", "order:3", 0}
	older    = identity{"shop", "mail", "order:4", 0}
	newer    = identity{"shop", "mail", "order:4", 1}
	nobody   = identity{"shop", "mail", "order:5", 0}
	ancient  = identity{"shop", "mail", "order:6", 0}
	argued   = identity{"shop", "mail", "order:7", 0}
	revoked  = identity{"shop", "mail", "order:8", 0}
	pickled  = identity{"shop", "mail", "order:9", 0}  // poison
	popped   = identity{"shop", "push", "order:11", 0} // shown twice in its place
	repopped = identity{"shop", "push", "order:11", 1}
	unloaded = identity{"shop", "plain", "order:10", 0}
)

func tell(of identity, s sort, seq uint64) told {
	return told{of: of, variant: "a", sort: s, way: publishing, to: "to " + of.String(), stored: true, seq: seq}
}

// sound is the account of a service that keeps its promises.
func sound() *account {
	lostReply, again := call(hooked, 10, answerNone), call(hooked, 20, answerAccepted)
	lostReply.applied, lostReply.mishap, again.repeated = true, replyLost, true
	inDoubt := call(doubted, 10, answerNone)
	inDoubt.applied = true
	shown, shownAgain, replaced := accepted(popped, 10), accepted(popped, 12), accepted(repopped, 14)
	for _, e := range []*effect{&shown, &shownAgain, &replaced} {
		e.key, e.slot = "", "device/tag"
	}
	shown.answer = answerNone
	refused := call(nobody, 10, answerRefused)
	refused.of, refused.unread = identity{}, true // the address was refused before the mail was read
	a := &account{evidence: evidence{
		lease: 11 * time.Second, canaries: []string{"canary"}, logs: "all is well", metrics: "up 1",
		effects: []effect{accepted(paid, 10), lostReply, again, inDoubt, accepted(newer, 10), refused, accepted(argued, 10), shown, shownAgain, replaced},
		told: []told{
			tell(paid, ordinary, 1),
			{of: paid, variant: "a", way: submitting, verdict: wire.Duplicate, intent: "i-paid"},
			tell(hooked, ordinary, 2), tell(doubted, ordinary, 3), tell(older, revised, 4), tell(newer, revised, 5), tell(nobody, departed, 6),
			tell(ancient, stale, 7), tell(argued, disputed, 8),
			{of: argued, variant: "b", sort: disputed, way: submitting, verdict: wire.Conflict, intent: "i-argued"},
			tell(revoked, cancelled, 9),
			{of: revoked, variant: "a", sort: cancelled, way: cancelling, cancelled: wire.CancelDone},
			{of: pickled, way: smuggling, poison: notJSON, stored: true, seq: 10},
			tell(unloaded, ordinary, 11),
		},
		seen: []sighting{{"i-paid", "sending", 1, at(10)}, {"i-paid", "succeeded", 1, at(11)}},
		events: []wire.Event{
			event("i-paid", "1", wire.WhatSucceeded), event("i-hooked", "3", wire.WhatSucceeded), event("i-doubted", "1", wire.WhatUnknown),
			event("i-older", "0", wire.WhatSuperseded), event("i-newer", "1", wire.WhatSucceeded), event("i-nobody", "1", wire.WhatRejected),
			event("i-argued", "1", wire.WhatSucceeded), event("i-revoked", "0", wire.WhatCancelled), event("i-unloaded", "2", wire.WhatUnknown),
			event("i-popped", "2", wire.WhatSucceeded), event("i-repopped", "1", wire.WhatSucceeded),
			{ID: "refusal-1", What: wire.WhatConflict},
		},
		faults: []injected{{"F1 kill anywhere", at(12)}},
	}}
	a.intents = []admin.IntentDetail{
		intent("i-paid", paid, "duplicate-visible", "succeeded", 1, attempt(1, 10, 11, "accepted")),
		intent("i-hooked", hooked, "keyed", "succeeded", 3, attempt(1, 10, 11, "unknown"), attempt(3, 20, 21, "accepted")),
		intent("i-doubted", doubted, "duplicate-visible", "unknown", 1, attempt(1, 10, 11, "unknown")),
		intent("i-older", older, "duplicate-visible", "superseded", 0),
		intent("i-newer", newer, "duplicate-visible", "succeeded", 1, attempt(1, 10, 11, "accepted")),
		intent("i-nobody", nobody, "duplicate-visible", "rejected", 1, attempt(1, 10, 11, "refused")),
		intent("i-argued", argued, "duplicate-visible", "succeeded", 1, attempt(1, 10, 11, "accepted")),
		intent("i-revoked", revoked, "duplicate-visible", "cancelled", 0),
		intent("i-popped", popped, "replaceable", "succeeded", 2, attempt(1, 10, 11, "unknown"), attempt(2, 12, 13, "accepted")),
		intent("i-repopped", repopped, "replaceable", "succeeded", 1, attempt(1, 14, 15, "accepted")),
		intent("i-unloaded", unloaded, "duplicate-visible", "unknown", 2, attempt(1, 10, 25, "unknown")), // its dispatcher was killed
	}
	a.refusals = []admin.Refusal{
		{Caller: "shop", Channel: "mail", Key: ancient.key, Verdict: "stale", Code: wire.CodeOccurredAtStale, StreamSeq: 7},
		{Caller: "shop", Channel: "mail", Key: argued.key, Verdict: "conflict", Code: wire.CodeKeyConflict},
		{Caller: "shop", Channel: "mail", Verdict: "refused", Code: "json_invalid", StreamSeq: 10},
	}
	return a
}

func (a *account) violations() (out []string) {
	a.sort()
	for _, c := range checks {
		for range c.find(a) {
			out = append(out, c.invariant)
		}
	}
	return out
}

func TestASoundAccountHasNoViolation(t *testing.T) {
	a := sound()
	a.sort()
	for _, c := range checks {
		for _, what := range c.find(a) {
			t.Errorf("%s: %s", c.invariant, what)
		}
	}
}

// Each check finds what it is for.
func TestEachCheckFindsItsViolation(t *testing.T) {
	for _, c := range []struct {
		name, invariant string
		spoil           func(*account)
	}{
		{"a mail comes twice", "I1", func(a *account) { a.effects = append(a.effects, accepted(paid, 12)) }},
		{"a key is applied twice", "I1", func(a *account) { a.effects[2].applied = true }},
		{"succeeded and never applied", "I2", func(a *account) { a.effects[0].applied = false }},
		{"rejected and applied", "I2", func(a *account) { a.effects[5].applied = true }},
		{"rejected and never refused", "I2", func(a *account) { a.effects = slices.Delete(a.effects, 5, 6) }},
		{"superseded and applied", "I2", func(a *account) { a.effects = append(a.effects, accepted(older, 9)) }},
		{"an event after the end", "I3", func(a *account) { a.events = append(a.events, event("i-paid", "2", wire.WhatUnknown)) }},
		{"the end is told differently", "I3", func(a *account) { a.events[0] = event("i-paid", "1", wire.WhatRejected) }},
		{"the end is not told", "I3", func(a *account) { a.events = a.events[1:] }},
		{"seen as ended and going on", "I3", func(a *account) { a.seen[1].state = "rejected" }},
		{"left pending", "I4", func(a *account) { a.intents[0].State = "pending" }},
		{"a stored request vanishes", "I5", func(a *account) { a.intents = a.intents[1:] }},
		{"poison leaves no refusal", "I5", func(a *account) { a.refusals = a.refusals[:2] }},
		{"an accepted one has another intent", "I5", func(a *account) { a.told[1].intent = "i-other" }},
		{"a conflict leaves no refusal", "I5", func(a *account) { a.refusals = slices.Delete(a.refusals, 1, 2) }},
		{"both meanings are taken", "I6", func(a *account) { a.told[9].verdict = wire.Accepted; a.told[9].intent = "i-argued" }},
		{"the refused meaning is sent", "I6", func(a *account) { a.effects[6].variant = "b" }},
		{"one key is two intents", "I6", func(a *account) { a.intents = append(a.intents, a.intents[0]); a.intents[0].ID = "i-twin" }},
		{"sent for another caller", "I7", func(a *account) { a.effects[0].of.caller = "depot" }},
		{"a generation is used twice", "I8", func(a *account) { a.intents[1].Attempts[1].Generation = 1 }},
		{"a generation falls", "I8", func(a *account) { a.seen[0].generation = 2 }},
		{"an event of an older generation", "I8", func(a *account) { a.events[1].ID = "i-hooked-9-succeeded" }},
		{"a resend has another key", "I9", func(a *account) { a.effects[2].key = "k-new" }},
		{"a resend has another body", "I9", func(a *account) { a.effects[2].body = "b-new" }},
		{"the provider finds another body", "I9", func(a *account) { a.effects[2].mismatch = true }},
		{"two intents share a key", "I9", func(a *account) { a.effects[4].key = a.effects[0].key }},
		{"a call after the lease", "I10", func(a *account) { a.effects[0].begun = at(22) }},
		{"a call before any claim", "I10", func(a *account) { a.effects[0].begun = at(-20) }},
		{"a stale one is admitted", "I11", func(a *account) { a.intents = append(a.intents, intent("i-ancient", ancient, "keyed", "pending", 0)) }},
		{"a sound one is refused", "I11", func(a *account) { a.refusals[0].Key = paid.key }},
		{"a repeat is called a conflict", "I11", func(a *account) { a.refusals[1].Key = paid.key }},
		{"called again in doubt", "I13", func(a *account) { a.effects = append(a.effects, call(doubted, 12, answerLater)) }},
		{"the older revision comes last", "I14", func(a *account) { a.effects = append(a.effects, accepted(older, 12)) }},
		{"shown in two places", "I1", func(a *account) { a.effects[9].slot = "device/other" }},
		{"a resend in another place", "I9", func(a *account) { a.effects[8].slot = "device/other" }},
		{"the older revision is shown", "I14", func(a *account) { a.effects[8], a.effects[9] = a.effects[9], a.effects[8] }},
		{"a recipient in the log", "I16", func(a *account) { a.logs = "sending to canary@example.org" }},
		{"a secret in an event", "I16", func(a *account) { a.events[0].Message = "canary" }},
		{"a recipient in a refusal", "I16", func(a *account) { a.refusals[2].Sample = "canary" }},
		{"a recipient in a metric", "I16", func(a *account) { a.metrics = `sent{to="canary"} 1` }},
		{"more calls than attempts", "calls on record", func(a *account) { a.intents[1].Attempts = a.intents[1].Attempts[:1] }},
		{"accepted on record, not by the provider", "answers on record", func(a *account) { a.intents[2].Attempts[0].Result = "accepted" }},
		{"no reply on record as not sent", "answers on record", func(a *account) { a.intents[2].Attempts[0].Result = "not-sent" }},
		{"expired, and nobody asked", "no wrong state", func(a *account) { a.intents[0].State = "expired" }},
		{"superseded by nothing", "no wrong state", func(a *account) { a.intents[0].State = "superseded" }},
		{"told as cancelled and sent", "no wrong state", func(a *account) { a.intents[7].State = "succeeded" }},
		{"accepted from a gone recipient", "no wrong state", func(a *account) { a.intents[5].State = "succeeded" }},
		{"unknown for no reason", "every UNKNOWN explained", func(a *account) { a.faults[0].at = at(100) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := sound()
			c.spoil(a)
			if found := a.violations(); !slices.Contains(found, c.invariant) {
				t.Errorf("found %v; want %s among them", found, c.invariant)
			}
		})
	}
}
