package pgstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

func at(t time.Time) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Meaning.OccurredAt = t }
}

// D3: for every key, at any time, it is remembered or it is refused; never taken for new again.
func TestD3BehindTheWatermarkNothingIsNew(t *testing.T) {
	b := newBench(t)
	old := time.Now().Add(-50 * time.Hour)
	b.admit(ask("d:sent", 0, at(old)), ask("d:open", 0, at(old)), ask("d:revised", 0, at(old)))
	b.settle(succeeded(b.claimOf("d:sent"), me))
	// The purge: the watermark first, then keys whose intent is settled.
	b.exec(`update watermark set acked_to = now() - interval '49 hours'`)
	b.exec(`delete from keys k using intents i where i.id = k.intent_id and i.state = 'succeeded'`)
	for _, test := range []struct {
		name string
		ask  intents.Admission
		want intents.VerdictKind
	}{
		{"forgotten", ask("d:sent", 0, at(old)), intents.Stale},
		{"forgotten, in other words", ask("d:sent", 0, at(old), text("other")), intents.Stale},
		{"never heard of", ask("d:new", 0, at(old)), intents.Stale},
		{"exactly at the watermark", ask("d:edge", 0, at(one[time.Time](b, `select acked_to from watermark`))), intents.Stale},
		{"a microsecond after it", ask("d:after", 0, at(one[time.Time](b, `select acked_to from watermark`).Add(time.Microsecond))), intents.Accepted},
		{"open, so it is remembered", ask("d:open", 0, at(old)), intents.Duplicate},
		{"open, in other words", ask("d:open", 0, at(old), text("other")), intents.Conflict},
		{"a newer revision, itself too old", ask("d:revised", 1, at(old)), intents.Stale},
		{"a newer revision in time", ask("d:revised", 2), intents.Accepted},
	} {
		if v := b.admit(test.ask)[0]; v.Kind != test.want {
			t.Errorf("%s: %+v, want %s", test.name, v, test.want)
		}
	}
}

// claimOf claims everything and hands back all but the key's claim.
func (b *bench) claimOf(key string) (mine intents.Claim) {
	b.t.Helper()
	for _, c := range b.claim(me, 100) {
		if string(c.Identity.Key) == key {
			mine = c
			continue
		}
		b.settle(handBack(c, me))
	}
	return mine
}

// D3, the race: while a purge moves the watermark, an admission that would fall behind it waits and is refused; and a purge waits for
// admissions that are under way.
func TestD3WatermarkMovesDuringAdmission(t *testing.T) {
	for _, revision := range []int32{0, 1} { // a new fact, and a revision of a known one
		b := newBench(t)
		b.admit(ask("d:2", 0), ask("d:1", revision^1, at(time.Now().Add(-time.Hour)))) // for revision 1 the older one; else an unrelated newer one
		key := map[int32]string{0: "d:new", 1: "d:1"}[revision]
		end := b.hold(`update watermark set acked_to = now() - interval '1 minute'`)
		got := b.admission(ask(key, revision, at(time.Now().Add(-time.Hour))))
		b.waiting(1)
		end("commit")
		if v := (<-got)[0]; v.Kind != intents.Stale {
			t.Errorf("revision %d: %+v", revision, v)
		}
		b.holds()
	}
}

// B1: text is checked before it comes here; if something slips through, it costs its own admission and no other.
func TestB1UnstorableTextCostsItsOwnAdmissionOnly(t *testing.T) {
	var log bytes.Buffer
	b := benchAt(t, pgtest.New(t), pgstore.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	b.admit(ask("r:1", 0))
	poison := func(a *intents.Admission) { a.EffectKey = "a\x00b" }
	broken := func(a *intents.Admission) { a.Meaning.Recipient = "eve@example.org\xc3\x28" }
	label := func(a *intents.Admission) { a.Labels = map[string]string{"a": "\x00"} }
	var as []intents.Admission
	for i := range 40 {
		as = append(as, ask(fmt.Sprintf("b:%d", i), 0))
	}
	as[3], as[17], as[31] = ask("b:3", 0, poison), ask("b:17", 0, broken), ask("b:31", 0, label)
	as = append(as, ask("b:3", 0, text("a good one of the same fact")), ask("r:1", 1, poison))
	bad := []int{3, 17, 31, 41}
	for i, v := range b.admit(as...) {
		if refused := v.Kind == intents.Refused && v.Code == intents.CodeInternal; refused != slices.Contains(bad, i) || !refused && v.Kind != intents.Accepted {
			t.Errorf("admission %d: %+v", i, v)
		}
	}
	b.wantState("r:1", 0, intents.Pending)
	if said := log.String(); strings.Count(said, "level=ERROR") != len(bad) || strings.Contains(said, "example.org") || strings.Contains(said, "0xc3") {
		t.Errorf("the log must tell each refusal, and no value:\n%s", said)
	}
	b.holds()
}

// O3: fingerprints of another version are not comparable; what they stand for is.
func TestO3RowsOfAnotherFingerprintVersion(t *testing.T) {
	b := newBench(t)
	b.admit(ask("v:1", 0), ask("v:2", 0))
	b.exec(`update keys set fingerprint_version = 99, fingerprint = sha256('another way to count')`)
	vs := b.admit(ask("v:1", 0), ask("v:1", 0, text("other")), ask("v:1", 0, at(intenttest.Happened.Add(time.Second))))
	want := []intents.VerdictKind{intents.Duplicate, intents.Conflict, intents.Conflict}
	fields := [][]string{nil, {"content"}, {"occurred_at"}}
	for i, v := range vs {
		if v.Kind != want[i] || !slices.Equal(v.Fields, fields[i]) {
			t.Errorf("verdict %d: %+v, want %s %v", i, v, want[i], fields[i])
		}
	}
	// The content is forgotten: what the key remembers is compared; nothing is sent either way.
	b.exec(`delete from contents`)
	vs = b.admit(ask("v:2", 0), ask("v:2", 0, at(intenttest.Happened.Add(time.Second))))
	if vs[0].Kind != intents.Duplicate || vs[1].Kind != intents.Conflict {
		t.Errorf("without content: %+v", vs)
	}
	b.exec(`update keys set fingerprint_version = 1`)
	if v := b.admit(ask("v:2", 0))[0]; v.Kind != intents.Conflict || len(v.Fields) != 0 {
		t.Errorf("the same version, another digest, no content: %+v", v)
	}
}

// D7: a dump from the morning, started in the afternoon: what was on the wire then is in doubt now, and what expired stays unsent.
func TestD7StartedFromADump(t *testing.T) {
	b := newBench(t)
	b.admit(ask("d:on-the-wire", 0))
	b.claimOne(me)
	b.admit(ask("d:at-admission", 0, now))
	b.admit(ask("d:waiting", 0, intenttest.ExpiresIn(time.Hour)), ask("d:endless", 0))
	b.pass(6 * time.Hour)
	if cs := b.claim(them, 10); len(cs) != 1 || cs[0].Identity.Key != "d:endless" {
		t.Errorf("claimed: %+v", cs)
	}
	for _, c := range b.takeOver(them) {
		if !c.Doubt {
			t.Errorf("no doubt about %+v", c)
		}
		b.settle(leaseOver(c, them, true))
	}
	b.wantState("d:on-the-wire", 0, intents.UnknownState)
	b.wantState("d:at-admission", 0, intents.UnknownState)
	if _, err := b.Sweep(b.ctx, 10); err != nil {
		t.Fatal(err)
	}
	b.wantState("d:waiting", 0, intents.Expired)
	b.holds()
}

// Whatever a batch weighs, it is split so that one statement can carry it.
func TestHeavyBatchGoesInParts(t *testing.T) {
	b := newBench(t)
	heavy := func(a *intents.Admission) { a.Rendered = make([]byte, 3<<20) }
	var as []intents.Admission
	for i := range 14 {
		as = append(as, ask(fmt.Sprintf("h:%d", i), 0, now, heavy))
	}
	batch := batchOf(as...)
	for i, v := range b.admitBatch(batch) {
		if v.Kind != intents.Accepted || v.Claim == nil {
			t.Errorf("admission %d: %+v", i, v)
		}
	}
	if n := one[int](b, `select cardinality(intents) from claim_batches where id = $1`, batch.Batch); n != len(as) {
		t.Errorf("the claim batch holds %d of %d", n, len(as))
	}
	b.holds()
}
