package pgstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// events reads the whole outbox through the store, decoded by the contract with producers.
func (b *bench) events() (all []wire.Event, rows []int64) {
	b.t.Helper()
	out, err := b.Events(b.ctx, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, row := range out {
		rows = append(rows, row.ID)
		for _, data := range row.Events {
			e, err := wire.DecodeEvent(data)
			if err != nil {
				b.t.Fatal(err)
			}
			all = append(all, e)
		}
	}
	return all, rows
}

func TestEventsTellEveryOutcomeOnceAndInOrder(t *testing.T) {
	b := newBench(t)
	b.admit(ask("e:1", 0), ask("e:2", 0), ask("e:3", 0), ask("e:4", 0, intenttest.ExpiresIn(-time.Second)))
	id := map[string]uuid.UUID{}
	for _, key := range []string{"e:1", "e:2", "e:3", "e:4"} {
		id[key] = b.find(key, 0).ID
	}
	late := b.claimOf("e:1")
	b.pass(intenttest.Lease)
	b.settle(leaseOver(b.takeOver(them)[0], them, true)) // unknown
	if _, err := b.Witness(b.ctx, succeeded(late, me)); err != nil {
		t.Fatal(err)
	}
	c := b.claimOf("e:2")
	b.settle(notSent(c, me, 0)) // pending tells nobody
	b.settle(intenttest.Rejected(b.claimOf("e:2"), me))
	if _, _, _, err := b.Cancel(b.ctx, ask("e:3", 0).Identity, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sweep(b.ctx, 10); err != nil {
		t.Fatal(err)
	}
	refusal := intents.Refusal{ID: uuid.New(), Verdict: intents.Superseded, Code: "superseded", Caller: "shop", Channel: "mail", Key: "e:9", Revision: 3, Intent: id["e:1"]}
	stray := intents.Refusal{ID: uuid.New(), Verdict: intents.Refused, Code: "malformed", Caller: "shop", Channel: "mail", Key: "\"<\x01\xff"}
	for range 2 {
		if err := b.Refuse(b.ctx, []intents.Refusal{refusal, stray}); err != nil {
			t.Fatal(err)
		}
	}
	got, rows := b.events()
	var lines []string
	for _, e := range got {
		if time.Since(e.At).Abs() > 5*time.Minute || e.Caller != "shop" || e.Channel != "mail" {
			t.Errorf("%+v", e)
		}
		lines = append(lines, strings.Join([]string{e.ID, e.Intent, e.Key, fmt.Sprint(e.Revision), string(e.What), e.ProviderID, e.Code, fmt.Sprint(e.DeadRecipient, e.Admitted)}, " "))
	}
	one := func(key, generation, what, provider, code, flags string) string {
		return strings.Join([]string{id[key].String() + "-" + generation + "-" + what, id[key].String(), key, "0", what, provider, code, flags}, " ")
	}
	want := []string{
		one("e:1", "2", "unknown", "", "repeat-visible", "false true"),
		one("e:1", "2", "succeeded", "provider-7", "250", "false true"),
	}
	if !slices.Equal(lines[:2], want) {
		t.Errorf("the first events:\n%s\nwant\n%s", strings.Join(lines[:2], "\n"), strings.Join(want, "\n"))
	}
	for _, want := range []string{
		one("e:3", "3", "cancelled", "", "cancelled", "false true"), one("e:4", "0", "expired", "", "expired", "false true"),
		"refusal-" + refusal.ID.String() + " " + id["e:1"].String() + " e:9 3 superseded  superseded false false",
		"refusal-" + stray.ID.String() + "  \"<\x01\uFFFD 0 refused  malformed false false",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing: %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if n := len(slices.DeleteFunc(got, func(e wire.Event) bool { return e.What != "rejected" || !e.DeadRecipient || e.Key != "e:2" })); n != 1 || len(lines) != 7 {
		t.Errorf("%d events, want 7:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if err := b.Forget(b.ctx, rows[:2]); err != nil {
		t.Fatal(err)
	}
	if left, _ := b.events(); len(left) != 5 {
		t.Errorf("%d events left, want 5", len(left))
	}
}
