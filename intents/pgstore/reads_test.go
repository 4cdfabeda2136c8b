package pgstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

func TestPagesStayStableWhileIntentsAreAdmitted(t *testing.T) {
	l := newLedger(t)
	var want []uuid.UUID
	for i := range 25 {
		want = append(want, l.simple("shop", "mail", fmt.Sprint("receipt:", i)))
	}
	slices.Reverse(want)
	for n, f := range []intents.Filter{{}, {State: intents.Pending}, {Caller: "shop"}} {
		var got []uuid.UUID
		f.Limit = 10
		for page := 0; page == 0 || f.Before != uuid.Nil; page++ {
			ids, next := l.list(f)
			got = append(got, ids...)
			l.simple("shop", "mail", fmt.Sprint("late:", n, "_", page)) // newer than everything listed
			f.Before = next
		}
		// Those of earlier rounds are newer than all of the first ones.
		if d := cmp.Diff(want, got[max(0, len(got)-len(want)):]); d != "" {
			t.Errorf("%+v: pages over 25 intents: %s", f, d)
		}
		if extra := len(got) - len(want); extra > 0 && n == 0 {
			t.Errorf("%d intents admitted between the pages were listed", extra)
		}
	}
}

func TestKeyIsFoundWithItsRevisions(t *testing.T) {
	l := newLedger(t)
	id := dedup.Identity{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841"}
	var mine []uuid.UUID
	for r := range int32(3) {
		id.Revision = r
		mine = append(mine, l.admit(asked(t, id, "ada@example.org")))
	}
	slices.Reverse(mine)
	theirs := l.simple("other", "mail", "receipt-mail:8841") // X2: a key belongs to its caller
	push := l.simple("shop", "push", "receipt-mail:8841")
	l.simple("shop", "mail", "receipt-mail:8842")
	one := int32(1)
	for _, c := range []struct {
		f    intents.Filter
		want []uuid.UUID
	}{
		{intents.Filter{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841"}, mine},
		{intents.Filter{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841", Revision: &one}, mine[1:2]},
		{intents.Filter{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841", State: intents.Pending}, mine[:1]},
		{intents.Filter{Caller: "shop", Key: "receipt-mail:8841"}, append([]uuid.UUID{push}, mine...)},
		{intents.Filter{Key: "receipt-mail:8841"}, append([]uuid.UUID{push, theirs}, mine...)},
		{intents.Filter{Caller: "other", Channel: "mail", Key: "receipt-mail:8841"}, []uuid.UUID{theirs}},
		{intents.Filter{Caller: "nobody", Channel: "mail", Key: "receipt-mail:8841"}, nil},
		{intents.Filter{Caller: "nobody", Key: "receipt-mail:8841"}, nil},
		{intents.Filter{Key: "receipt-mail:8843"}, nil},
	} {
		got, next := l.list(c.f)
		if d := cmp.Diff(c.want, got); d != "" || next != uuid.Nil {
			t.Errorf("%+v: %s, next %s", c.f, d, next)
		}
	}
	page, next := l.list(intents.Filter{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841", Limit: 2})
	rest, end := l.list(intents.Filter{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841", Limit: 2, Before: next})
	if d := cmp.Diff(mine, append(page, rest...)); d != "" || end != uuid.Nil {
		t.Errorf("paged revisions: %s, end %s", d, end)
	}
}

func TestFiltersFindWhatTheyName(t *testing.T) {
	l := newLedger(t)
	id := func(channel, key string) dedup.Identity {
		return dedup.Identity{Caller: "shop", Channel: channel, Key: dedup.Key(key)}
	}
	accepted := channels.OutcomeAccepted("provider-7", "250", "queued")
	unknown := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "no reply")
	refused := channels.OutcomeRefused("550", "no such user")
	succeeded := l.sent(id("a", "k:1"), accepted, intents.Succeed)
	parked := l.sent(id("b", "k:2"), unknown, func(o channels.Outcome) intents.Transition { return intents.Park(o.Code(), o.Message(), true) })
	rejected := l.sent(id("c", "k:3"), refused, intents.Reject)
	pending := l.admit(asked(t, id("d", "k:4"), "eve@example.org"))
	claimedNow := l.admit(asked(t, id("e", "k:5"), "eve@example.org", func(a *intents.Admission) { a.ClaimNow = true }))
	claimedLater := l.simple("shop", "f", "k:6")
	l.claim("f", 1)

	for _, c := range []struct {
		name string
		f    intents.Filter
		want []uuid.UUID
	}{
		{"pending", intents.Filter{State: intents.Pending}, []uuid.UUID{pending}},
		{"sending, claimed at admission and from the agenda", intents.Filter{State: intents.Sending}, []uuid.UUID{claimedLater, claimedNow}},
		{"unknown", intents.Filter{State: intents.UnknownState}, []uuid.UUID{parked}},
		{"unknown of another channel", intents.Filter{State: intents.UnknownState, Channel: "a"}, nil},
		{"unknown of another caller", intents.Filter{State: intents.UnknownState, Caller: "other"}, nil},
		{"succeeded", intents.Filter{State: intents.Succeeded}, []uuid.UUID{succeeded}},
		{"rejected", intents.Filter{State: intents.Rejected}, []uuid.UUID{rejected}},
		{"exhausted", intents.Filter{State: intents.Exhausted}, nil},
		{"provider id", intents.Filter{ProviderID: "provider-7"}, []uuid.UUID{succeeded}},
		{"recipient", intents.Filter{RecipientHashes: [][]byte{hashOf("EVE@x"), hashOf("eve@example.org")}}, []uuid.UUID{claimedNow, pending}},
		{"recipient and state", intents.Filter{RecipientHashes: [][]byte{hashOf("eve@example.org")}, State: intents.Pending}, []uuid.UUID{pending}},
		{"nobody's recipient", intents.Filter{RecipientHashes: [][]byte{hashOf("x")}}, nil},
		{"channel", intents.Filter{Channel: "c"}, []uuid.UUID{rejected}},
	} {
		if got, _ := l.list(c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSpanOfCreationIsExact(t *testing.T) {
	l := newLedger(t)
	first, second := l.simple("shop", "mail", "k:1"), l.simple("shop", "mail", "k:2")
	at := func(id uuid.UUID) time.Time {
		r, found, err := l.GetRecord(l.ctx, id)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return r.Intent.CreatedAt
	}
	created := at(second)
	for _, c := range []struct {
		since, until time.Time
		want         []uuid.UUID
	}{
		{created, time.Time{}, []uuid.UUID{second}},
		{created.Add(time.Microsecond), time.Time{}, nil},
		{time.Time{}, created, []uuid.UUID{first}},
		{time.Time{}, created.Add(time.Microsecond), []uuid.UUID{second, first}},
		{at(first), created.Add(time.Microsecond), []uuid.UUID{second, first}},
		{time.Time{}, at(first), nil},
	} {
		for _, f := range []intents.Filter{{}, {State: intents.Pending}, {Caller: "shop", Channel: "mail", Key: "k:2"}} {
			want := c.want
			if f.Key != "" {
				want = slices.DeleteFunc(slices.Clone(want), func(id uuid.UUID) bool { return id == first })
			}
			f.Since, f.Until = c.since, c.until
			if got, _ := l.list(f); !slices.Equal(got, want) {
				t.Errorf("since %v until %v (%s%s): %v, want %v", c.since, c.until, f.State, f.Key, got, want)
			}
		}
	}
}

func TestLimitsAreBounded(t *testing.T) {
	l := newLedger(t)
	batch := intents.AdmitBatch{Batch: uuid.Must(uuid.NewV7()), Owner: "worker-1", Lease: time.Minute}
	for i := range intents.MaxPage + 5 {
		batch.Admissions = append(batch.Admissions, asked(t, dedup.Identity{Caller: "shop", Channel: "mail", Key: dedup.Key(fmt.Sprint("k:", i))}, "a@b.c"))
	}
	if _, err := l.Admit(l.ctx, batch); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{-1: 1, 1: 1, 7: 7, 1 << 30: intents.MaxPage} {
		page, err := l.ListIntents(l.ctx, intents.Filter{Limit: limit})
		if err != nil || len(page.Intents) != want || page.Next == uuid.Nil {
			t.Errorf("limit %d: %d rows, next %s, %v; want %d rows", limit, len(page.Intents), page.Next, err, want)
		}
	}
}
