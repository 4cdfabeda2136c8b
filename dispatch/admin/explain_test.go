package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

var (
	mailContract = channels.Contract{Guarantee: channels.DuplicateVisible, KeyFormat: "hex", LookUp: channels.LookUpNone, AttemptTimeout: time.Minute}
	hookContract = channels.Contract{Guarantee: channels.Keyed, KeyField: "Idempotency-Key", KeyFormat: "hex", KeyWindow: 24 * time.Hour, LookUp: channels.LookUpPull, AttemptTimeout: time.Minute}
	pushContract = channels.Contract{Guarantee: channels.Replaceable, KeyFormat: "hex", CollapseField: "tag", CollapseFormat: "hex", LookUp: channels.LookUpEvents, AttemptTimeout: time.Minute}
	tenOClock    = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
)

func sampleRecord(state intents.State, g channels.Guarantee) intents.Record {
	return intents.Record{Intent: intents.Intent{
		ID: uuid.MustParse("019ad000-0000-7000-8000-000000000001"), State: state, Guarantee: g, Generation: 2, Owner: "worker-1",
		Identity:  dedup.Identity{Caller: "shop", Channel: "mail", Key: "receipt-mail:8841"},
		EffectKey: "effect-1", CreatedAt: tenOClock, FirstUsedAt: tenOClock, LeaseUntil: tenOClock.Add(time.Minute),
		NextAttemptAt: tenOClock.Add(2 * time.Minute), Attempts: 3, Code: "451", Message: "try later",
	}}
}

// TestExplainSaysForEachStateAndGuarantee: what must be said, and for each guarantee what may not be said.
func TestExplainSaysForEachStateAndGuarantee(t *testing.T) {
	contracts := map[channels.Guarantee]channels.Contract{channels.Keyed: hookContract, channels.Replaceable: pushContract, channels.DuplicateVisible: mailContract}
	meaning := map[channels.Guarantee]string{
		channels.Keyed:            "for 24h0m0s after the first use, until 2026-12-01T10:00:00Z",
		channels.Replaceable:      "may alert a second time",
		channels.DuplicateVisible: "never repeated while nobody knows",
	}
	happens := map[intents.State]string{
		intents.Pending: "3 attempts so far", intents.Sending: "worker-1", intents.Succeeded: "Accepted is not yet delivered",
		intents.Rejected: "refused it for good (451: try later)", intents.UnknownState: "nobody knows whether the provider applied it",
		intents.Expired: "Nothing was sent", intents.SupersededState: "newer revision", intents.Cancelled: "cancelled before it was sent",
		intents.Exhausted: "Each of its 3 attempts failed", intents.Abandoned: "given up",
	}
	// Where the guarantee changes what to do, it must say so.
	nexts := map[intents.State]map[channels.Guarantee]string{
		intents.Sending: {
			channels.Keyed: "sends it again with the same key", channels.Replaceable: "to replace the first", channels.DuplicateVisible: "marks it unknown",
		},
		intents.UnknownState: {
			channels.Keyed: "may be a second effect", channels.Replaceable: "replaces what is shown", channels.DuplicateVisible: "second notification",
		},
	}
	common := map[intents.State]string{
		intents.Pending: "2026-11-30T10:02:00Z", intents.Succeeded: "Nothing.", intents.Rejected: "next revision", intents.Expired: "expires_at",
		intents.SupersededState: "newer revision", intents.Cancelled: "next revision", intents.Exhausted: "onebell doctor", intents.Abandoned: "second notification",
	}
	for _, state := range intents.States() {
		for g, contract := range contracts {
			got := Explain(sampleRecord(state, g), contract)
			if !strings.Contains(got.Happened, happens[state]) {
				t.Errorf("%s, %s: what happened lacks %q: %s", state, g, happens[state], got.Happened)
			}
			if !strings.HasPrefix(got.Guarantee, string(g)+": ") || !strings.Contains(got.Guarantee, meaning[g]) {
				t.Errorf("%s, %s: the guarantee lacks %q: %s", state, g, meaning[g], got.Guarantee)
			}
			want := common[state]
			if nexts[state] != nil {
				want = nexts[state][g]
			}
			if want == "" || !strings.Contains(got.Next, want) {
				t.Errorf("%s, %s: what is next lacks %q: %s", state, g, want, got.Next)
			}
			if all := got.Happened + got.Guarantee + got.Next; strings.Contains(strings.ToLower(all), "exactly") {
				t.Errorf("%s, %s promises too much: %s", state, g, all)
			}
		}
	}
}

func TestExplainFollowsTheFacts(t *testing.T) {
	base := func(change func(*intents.Record)) intents.Record {
		r := sampleRecord(intents.UnknownState, channels.DuplicateVisible)
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		record   intents.Record
		contract channels.Contract
		part     func(Explanation) string
		want     string
		not      string
	}{
		"the phase that an unknown attempt reached": {base(func(r *intents.Record) {
			r.Attempts = []intents.Attempt{{Result: "unknown", Phase: "committed"}}
		}), mailContract, func(e Explanation) string { return e.Happened }, "got as far as committed", ""},
		"where to look": {base(func(*intents.Record) {}), mailContract, func(e Explanation) string { return e.Next }, "effect key effect-1", "settles it."},
		"a look-up may settle it": {
			base(func(r *intents.Record) { r.Intent.Guarantee = channels.Keyed }), hookContract,
			func(e Explanation) string { return e.Next }, "a definite answer settles it", "",
		},
		"a pending intent in doubt is not offered for cancelling": {
			base(func(r *intents.Record) { r.Intent.State, r.Intent.Doubt = intents.Pending, true }), mailContract,
			func(e Explanation) string { return e.Next }, "due at", "cancel",
		},
		"a pending one out of doubt is": {
			base(func(r *intents.Record) { r.Intent.State = intents.Pending }), mailContract,
			func(e Explanation) string { return e.Next }, "onebell cancel", "",
		},
		"a channel that nobody here knows (O3)": {
			base(func(r *intents.Record) { r.Intent.State = intents.Pending }),
			channels.Contract{},
			func(e Explanation) string { return e.Next }, "does not know the channel mail", "",
		},
		"a dead recipient": {
			base(func(r *intents.Record) { r.Intent.State, r.Intent.DeadRecipient = intents.Rejected, true }), mailContract,
			func(e Explanation) string { return e.Next }, "Do not use this recipient again", "",
		},
		"who cancelled it": {base(func(r *intents.Record) {
			r.Intent.State = intents.Cancelled
			r.Changes = []intents.Change{{To: intents.Cancelled, Actor: "shop", Detail: "customer called"}}
		}), mailContract, func(e Explanation) string { return e.Happened }, "by shop (customer called)", ""},
		"possible duplicates": {
			base(func(r *intents.Record) { r.Intent.PossibleDuplicates = 2 }), mailContract,
			func(e Explanation) string { return e.Guarantee }, "resent 2 times", "",
		},
		"the newer revision": {base(func(r *intents.Record) {
			r.Intent.State, r.Intent.SupersededBy = intents.SupersededState, uuid.MustParse("019ad000-0000-7000-8000-000000000002")
		}), mailContract, func(e Explanation) string { return e.Next }, "/v1/intents/019ad000-0000-7000-8000-000000000002", ""},
	} {
		got := c.part(Explain(c.record, c.contract))
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: lacks %q: %s", name, c.want, got)
		}
		if c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%s: must not say %q: %s", name, c.not, got)
		}
	}
}

func TestTimelineIsOldestFirstAndInWords(t *testing.T) {
	at := func(s int) time.Time { return tenOClock.Add(time.Duration(s) * time.Second) }
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	r := intents.Record{
		Intent: intents.Intent{CreatedAt: at(0).In(berlin), ExpiresAt: at(3600).In(berlin)},
		Attempts: []intents.Attempt{
			{Generation: 1, Owner: "w1", StartedAt: at(0), EndedAt: at(30), Result: "unknown", Code: "lease-over", State: intents.Sending},
			{Generation: 2, Owner: "w2", StartedAt: at(31), EndedAt: at(32), Result: "accepted", ProviderID: "p-7", State: intents.Succeeded},
		},
		Changes:  []intents.Change{{Generation: 2, From: intents.Sending, To: intents.Sending, At: at(30), Cause: "takeover", Actor: "w2"}},
		Evidence: []intents.Evidence{{At: at(33), Source: "late-finisher", Generation: 1, Result: "not-sent"}},
	}
	var got []string
	for _, e := range Timeline(r) {
		got = append(got, e.At.Format(time.RFC3339)+" "+e.Kind+": "+e.Text)
	}
	want := []string{
		"2026-11-30T10:00:00Z admitted: admitted, worthless after 2026-11-30T11:00:00Z", // O5: UTC, wherever the database's client sits
		"2026-11-30T10:00:30Z attempt: attempt 1 by w1, 30s long: nobody knows how it ended (lease-over); it is sending",
		"2026-11-30T10:00:30Z change: takeover: still sending, by w2",
		"2026-11-30T10:00:32Z attempt: attempt 2 by w2, 1s long: the provider accepted it, provider id p-7; it is succeeded",
		"2026-11-30T10:00:33Z evidence: evidence (late-finisher): nothing was applied; kept on record",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
