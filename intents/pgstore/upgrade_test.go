package pgstore_test

import (
	"embed"
	"io/fs"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// The statements of the version before, which may run beside this one on this one's schema.
//
//go:embed testdata/previous/*.sql
var previous embed.FS

// before runs a statement of the version before, and returns what it answers.
func (b *bench) before(name string, args ...any) [][]any {
	b.t.Helper()
	text, err := previous.ReadFile("testdata/previous/" + name + ".sql")
	if err != nil {
		b.t.Fatal(err)
	}
	rows, err := b.db.Query(b.ctx, string(text), args...)
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	defer rows.Close()
	var all [][]any
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			b.t.Fatalf("%s: %v", name, err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	return all
}

// admitBefore admits one request as the version before does: the arguments of its admit.sql.
func (b *bench) admitBefore(a intents.Admission, owner string) (id uuid.UUID, claimed bool) {
	b.t.Helper()
	fact := a.Identity.Fact()
	rows := b.before("admit", []uuid.UUID{a.Token}, [][]byte{fact[:]}, []string{a.Identity.Caller}, []string{a.Identity.Channel},
		[]string{string(a.Identity.Key)}, []int32{a.Identity.Revision}, []int16{int16(a.Fingerprint.Version)}, [][]byte{a.Fingerprint.Sum[:]},
		[]time.Time{a.Meaning.OccurredAt}, []string{string(a.Guarantee)}, []string{a.EffectKey}, []string{a.CollapseKey}, []string{a.KeyScope},
		[][]byte{a.RecipientHash}, []string{a.Meaning.Recipient}, []string{string(a.Meaning.Content)}, []string{a.Meaning.CollapseID},
		[][]byte{a.Rendered}, []*time.Time{nil}, []*time.Time{nil}, []int16{int16(a.Priority)}, []*string{nil}, []string{""}, []bool{a.ClaimNow},
		uuid.New(), owner, intenttest.Lease)
	if len(rows) == 0 {
		return uuid.Nil, false
	}
	return uuid.UUID(rows[0][1].([16]byte)), rows[0][2].(bool)
}

// settleBefore settles a claim as accepted, as the version before does.
func (b *bench) settleBefore(id uuid.UUID, generation int32, owner string) int {
	b.t.Helper()
	none, no, yes := []string{""}, []bool{false}, []bool{true}
	return len(b.before("settle", []uuid.UUID{id}, []int32{generation}, []string{owner}, []string{"succeeded"}, []time.Duration{0}, yes, no, no,
		[]string{"250"}, none, []string{"q-1"}, no, yes, []string{"accepted"}, none, none, none, none, []time.Duration{0}))
}

func (b *bench) claimBefore(owner string, n int) (ids []uuid.UUID, generations []int32) {
	b.t.Helper()
	for _, row := range b.before("claim", "mail", "scope", owner, intenttest.Lease, n, uuid.New()) {
		ids, generations = append(ids, uuid.UUID(row[0].([16]byte))), append(generations, row[1].(int32))
	}
	return ids, generations
}

func TestPreviousStatementsPrepareOnTheNewestSchema(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	files, err := fs.Glob(previous, "testdata/previous/*.sql")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d statements, %v", len(files), err)
	}
	conn, err := b.db.Acquire(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, file := range files {
		text, err := previous.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Conn().Prepare(b.ctx, file, string(text)); err != nil {
			t.Errorf("%s does not work on this schema any more: %v; keep what it needs, or raise compatibility.oldest_binary", file, err)
		}
	}
}

// Each version admits, claims, settles and takes over what the other one wrote.
func TestTwoVersionsWorkSideBySide(t *testing.T) {
	t.Parallel()
	const older = "older/1"
	b := newBench(t)
	for _, key := range []string{"b:1", "b:2"} {
		if id, claimed := b.admitBefore(ask(key, 0), older); id == uuid.Nil || claimed {
			t.Fatalf("%s: %v %v", key, id, claimed)
		}
	}
	first, claimed := b.admitBefore(ask("b:3", 0, now), older)
	b.admit(ask("b:4", 0))
	if !claimed || b.settleBefore(first, 1, older) != 1 {
		t.Error("the older version does not settle what it claimed at admission")
	}
	if v := b.admit(ask("b:1", 0), ask("b:1", 0, text("else"))); v[0].Kind != intents.Duplicate || v[1].Kind != intents.Conflict {
		t.Errorf("what the older one admitted is %s and %s", v[0].Kind, v[1].Kind)
	}
	if id, _ := b.admitBefore(ask("b:4", 0), older); id != uuid.Nil {
		t.Error("the older one admits again what this one admitted")
	}

	c := b.claim(me, 1)[0]                      // of the older one's
	ids, generations := b.claimBefore(older, 9) // the rest, this one's among them
	if len(ids) != 2 || b.settle(succeeded(c, me))[0].Fenced {
		t.Errorf("the older one claimed %d, want 2", len(ids))
	}
	if b.settleBefore(ids[0], generations[0], older) != 1 {
		t.Error("the older one does not settle its claim")
	}
	b.pass(intenttest.Lease)
	if taken := b.takeOver(me); len(taken) != 1 || taken[0].ID != ids[1] {
		t.Fatalf("taken over %+v", taken)
	} else if b.settleBefore(ids[1], generations[1], older) != 0 {
		t.Error("the older one settles what was taken over from it")
	} else if b.settle(leaseOver(taken[0], me, false)); b.claimOne(me).Generation != generations[1]+2 {
		t.Error("what was taken over is not claimed in its turn")
	}
	b.pass(intenttest.Lease)
	if taken := b.before("take_over", []string{"mail"}, older, intenttest.Lease, 10); len(taken) != 1 {
		t.Errorf("the older one takes over %d of this one's, want 1", len(taken))
	} else if b.settleBefore(ids[1], generations[1]+3, older) != 1 {
		t.Error("the older one does not settle what it took over")
	}
	b.holds()
}

// What this version erased is claimed by the older one and never sent: its claim.sql hands out nothing without content.
func TestTheVersionBeforeSendsNothingThatWasErased(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.admit(ask("x:1", 0, toCanary))
	b.settle(parked(b.claimOne(me), me))
	b.erase(intents.Erasure{})
	b.pass(time.Minute)
	b.lookedUp(b.unknowns(1)[0], notThere, false)
	b.wantState("x:1", 0, intents.Pending)
	if ids, _ := b.claimBefore("older/1", 9); len(ids) > 0 {
		t.Error("it is handed out without content")
	}
	b.pass(intenttest.Lease)
	taken := b.takeOver(me)
	if len(taken) != 1 {
		t.Fatalf("%d taken over", len(taken))
	}
	b.settle(leaseOver(taken[0], me, true))
	b.wantState("x:1", 0, intents.UnknownState)
	b.holds()
}
