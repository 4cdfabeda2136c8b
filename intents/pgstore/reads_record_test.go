package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

func TestRecordHoldsEverythingThatIsKnown(t *testing.T) {
	l := newLedger(t)
	id := dedup.Identity{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841", Revision: 3}
	notBefore, expires := time.Now().Add(-time.Second).UTC().Truncate(time.Microsecond), time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	intent := l.admit(asked(t, id, "ada@example.org", func(a *intents.Admission) {
		a.NotBefore, a.ExpiresAt, a.Priority, a.Labels = notBefore, expires, intents.High, map[string]string{"order": "8841"}
	}))
	pending, _, err := l.GetRecord(l.ctx, intent)
	if err != nil || pending.Intent.NextAttemptAt.IsZero() || !pending.Intent.LeaseUntil.IsZero() || len(pending.Attempts) != 0 {
		t.Errorf("pending: %+v, %v", pending, err)
	}
	claim := l.claim("mail", 1)[0]
	sending, _, err := l.GetRecord(l.ctx, intent)
	if err != nil || sending.Intent.LeaseUntil.IsZero() || !sending.Intent.NextAttemptAt.IsZero() || sending.Intent.Owner != "worker-1" {
		t.Errorf("sending: %+v, %v", sending.Intent, err)
	}
	unknown := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "no reply")
	l.settle(claim, unknown, intents.Park(unknown.Code(), unknown.Message(), true))
	late := intents.Settlement{ID: intent, Generation: 1, Owner: "worker-1", Outcome: channels.OutcomeAccepted("p-7", "250", "queued"), Transition: intents.Succeed(channels.OutcomeAccepted("p-7", "250", "queued"))}
	if _, err := l.Witness(l.ctx, late); err != nil {
		t.Fatal(err)
	}
	got, found, err := l.GetRecord(l.ctx, intent)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	in := got.Intent
	if in.ID != intent || in.Identity != id || in.State != intents.Succeeded || in.Recipient != "ada@example.org" || in.ProviderID != "p-7" ||
		in.Generation != 1 || in.Guarantee != channels.DuplicateVisible || in.EffectKey != "effect-receipt-mail:8841" || in.Priority != intents.High ||
		!in.NotBefore.Equal(notBefore) || !in.ExpiresAt.Equal(expires) || in.Labels["order"] != "8841" || !in.NextAttemptAt.IsZero() || !in.LeaseUntil.IsZero() {
		t.Errorf("the intent: %+v", in)
	}
	times := cmpopts.IgnoreTypes(time.Time{})
	attempts := []intents.Attempt{{Generation: 1, Owner: "worker-1", Result: "unknown", Phase: "committed", Code: "timeout", Message: "no reply", State: intents.UnknownState}}
	if d := cmp.Diff(attempts, got.Attempts, times); d != "" {
		t.Error(d)
	}
	if took := got.Attempts[0].EndedAt.Sub(got.Attempts[0].StartedAt); took != time.Second {
		t.Errorf("the attempt took %v, want 1s", took)
	}
	evidence := []intents.Evidence{{Source: "late-finisher", Generation: 1, Result: "accepted", Code: "250", Message: "queued", ProviderID: "p-7", Settled: true}}
	if d := cmp.Diff(evidence, got.Evidence, times); d != "" {
		t.Error(d)
	}
	if n := len(got.Changes); n != 1 || got.Changes[0].From != intents.UnknownState || got.Changes[0].To != intents.Succeeded || got.Changes[0].Cause != "evidence" {
		t.Errorf("changes: %+v", got.Changes)
	}
	if _, found, err := l.GetRecord(l.ctx, uuid.Must(uuid.NewV7())); found || err != nil {
		t.Errorf("an id that nobody has: found %v, %v", found, err)
	}
}

func TestRefusalsAreListedNewestFirst(t *testing.T) {
	l := newLedger(t)
	standing := uuid.Must(uuid.NewV7())
	var want []uuid.UUID
	for i, r := range []intents.Refusal{
		{Verdict: intents.Conflict, Code: "conflict", Caller: "shop", Channel: "mail", Key: "k:1", Revision: 2, Intent: standing, Fields: []string{"content", "recipient"}, StreamSeq: 7, Subject: "onebell.request.shop.mail"},
		{Verdict: intents.Refused, Code: "unreadable", Caller: "shop", Subject: "onebell.request.shop.mail", Sample: "{…}", Message: "send JSON"},
		{Verdict: intents.Stale, Code: "stale", Caller: "other", Channel: "mail", Key: "k:1"},
	} {
		r.ID = uuid.UUID{0: byte(200 - 70*i), 15: 1} // newest last, and in no order of theirs
		want = append(want, r.ID)
		if err := l.Refuse(l.ctx, []intents.Refusal{r}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(want)
	list := func(f intents.RefusalFilter) []intents.Refusal {
		t.Helper()
		f.Limit = max(f.Limit, 1)
		got, err := l.ListRefusals(l.ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ids := func(list []intents.Refusal) (out []uuid.UUID) {
		for _, r := range list {
			out = append(out, r.ID)
		}
		return out
	}
	all := list(intents.RefusalFilter{Limit: 10})
	if d := cmp.Diff(want, ids(all)); d != "" {
		t.Error(d)
	}
	conflict := all[2]
	conflict.At = time.Time{}
	if d := cmp.Diff(intents.Refusal{
		ID: want[2], Verdict: intents.Conflict, Code: "conflict", Caller: "shop", Channel: "mail", Key: "k:1", Revision: 2,
		Intent: standing, Fields: []string{"content", "recipient"}, StreamSeq: 7, Subject: "onebell.request.shop.mail",
	}, conflict); d != "" {
		t.Error(d)
	}
	var paged []uuid.UUID
	f := intents.RefusalFilter{Limit: 1}
	for range all {
		page := list(f)
		if len(page) == 0 {
			break
		}
		paged = append(paged, ids(page)...)
		f.BeforeAt, f.Before = page[len(page)-1].At, page[len(page)-1].ID
	}
	if d := cmp.Diff(want, paged); d != "" || len(list(f)) != 0 {
		t.Errorf("pages of one: %s", d)
	}
	for name, c := range map[string]struct {
		f    intents.RefusalFilter
		want []uuid.UUID
	}{
		"caller":  {intents.RefusalFilter{Caller: "shop"}, want[1:]},
		"verdict": {intents.RefusalFilter{Verdict: intents.Stale}, want[:1]},
		"code":    {intents.RefusalFilter{Code: "unreadable"}, want[1:2]},
		"key":     {intents.RefusalFilter{Key: "k:1", Channel: "mail"}, []uuid.UUID{want[0], want[2]}},
		"since":   {intents.RefusalFilter{Since: all[1].At}, want[:2]},
		"until":   {intents.RefusalFilter{Until: all[1].At}, want[2:]},
	} {
		c.f.Limit = 10
		if d := cmp.Diff(c.want, ids(list(c.f))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestStatsCountWhatIsNewAndWhatIsOpen(t *testing.T) {
	l := newLedger(t)
	id := func(caller, key string) dedup.Identity {
		return dedup.Identity{Caller: caller, Channel: "mail", Key: dedup.Key(key)}
	}
	accepted := channels.OutcomeAccepted("", "250", "")
	unknown := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "")
	l.sent(id("shop", "k:1"), accepted, intents.Succeed)
	l.sent(id("shop", "k:2"), unknown, func(o channels.Outcome) intents.Transition { return intents.Resend(o, time.Hour, true) })
	l.sent(id("other", "k:1"), unknown, func(o channels.Outcome) intents.Transition { return intents.Park(o.Code(), o.Message(), true) })
	l.admit(asked(t, id("shop", "k:3"), "a@b.c", func(a *intents.Admission) { a.ClaimNow = true }))
	l.simple("other", "push", "k:1")
	if err := l.Refuse(l.ctx, []intents.Refusal{
		{ID: uuid.Must(uuid.NewV7()), Verdict: intents.Refused, Code: "unreadable", Caller: "shop"},
		{ID: uuid.Must(uuid.NewV7()), Verdict: intents.Refused, Code: "unreadable"},
		{ID: uuid.Must(uuid.NewV7()), Verdict: intents.Stale, Code: "stale", Caller: "other"},
	}); err != nil {
		t.Fatal(err)
	}
	type counts = map[intents.State]int64
	states := func(st intents.Stats) map[string]counts {
		out := map[string]counts{}
		for _, c := range st.Channels {
			out[c.Channel] = c.ByState
		}
		return out
	}
	for _, c := range []struct {
		name, caller string
		since        time.Duration
		want         map[string]counts
		refusals     map[string]int64
	}{
		{"everybody, last hour", "", -time.Hour, map[string]counts{"mail": {"succeeded": 1, "pending": 1, "unknown": 1, "sending": 1}, "push": {"pending": 1}}, map[string]int64{"unreadable": 2, "stale": 1}},
		{"everybody, from now on: the open ones stay", "", time.Hour, map[string]counts{"mail": {"pending": 1, "unknown": 1, "sending": 1}, "push": {"pending": 1}}, map[string]int64{}},
		{"one caller", "other", -time.Hour, map[string]counts{"mail": {"unknown": 1}, "push": {"pending": 1}}, map[string]int64{"stale": 1}},
		{"nobody", "nobody", -time.Hour, map[string]counts{}, map[string]int64{}},
	} {
		st, err := l.Stats(l.ctx, c.caller, time.Now().Add(c.since))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, states(st)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if d := cmp.Diff(c.refusals, st.Refusals); d != "" {
			t.Errorf("%s: refusals: %s", c.name, d)
		}
	}
	st, err := l.Stats(l.ctx, "", time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	mail, push := st.Channels[0], st.Channels[1]
	switch {
	case mail.PossibleDuplicates != 1:
		t.Errorf("possible duplicates of mail: %d, want 1", mail.PossibleDuplicates)
	case mail.OldestUnknown.IsZero() || !mail.OldestDue.IsZero(): // the pending one is due in an hour
		t.Errorf("mail: oldest unknown %v, oldest due %v", mail.OldestUnknown, mail.OldestDue)
	case push.OldestDue.IsZero() || !push.OldestUnknown.IsZero():
		t.Errorf("push: oldest due %v, oldest unknown %v", push.OldestDue, push.OldestUnknown)
	case st.Outbox == 0:
		t.Error("no rows in the outbox although outcomes were written")
	case time.Since(st.Now).Abs() > time.Minute:
		t.Errorf("the database's clock: %v", st.Now)
	}
}
