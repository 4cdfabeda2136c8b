package retention_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/retention"
)

// late is how many late duplicates TestD3LateDuplicatesAroundTheEdge sends: go test ./retention -run LateDuplicates -late=100000 -v
var late = flag.Int("late", 20000, "late duplicates to send around the edge of the window")

// edge is what a late duplicate meets: facts whose times lie within a second of where keys begin to be forgotten, purges without a pause, and
// windows that change twice.
type edge struct {
	*rig
	keep    atomic.Int64 // the window that applies
	sent    atomic.Int64
	count   map[intents.VerdictKind]*atomic.Int64
	revised atomic.Int64
	unknown atomic.Int64
}

// For every fact, at every moment: it is remembered or it is refused. None is admitted anew, whatever the windows do meanwhile: they are lowered,
// so that the watermark jumps, then raised, so that it stays where it is; two processes with different windows run at once for a while, as
// during a rolling restart.
func TestD3LateDuplicatesAroundTheEdge(t *testing.T) {
	e := &edge{rig: newRig(t), count: map[intents.VerdictKind]*atomic.Int64{}}
	for _, k := range []intents.VerdictKind{intents.Accepted, intents.Duplicate, intents.Stale, intents.Conflict, intents.Superseded, intents.Refused} {
		e.count[k] = &atomic.Int64{}
	}
	begin := time.Now()
	keeps := []time.Duration{10 * time.Minute, 9*time.Minute + 45*time.Second, 11 * time.Minute}
	var before *purger
	var deleted float64
	var watermarks []time.Time
	for phase, keep := range keeps {
		p := e.start(fmt.Sprintf("process-%d", phase), retention.Windows{Keys: keep, Contents: 20 * time.Minute, Intents: day}, e.store)
		e.keep.Store(int64(keep))
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() { e.work(t, int64(*late*(phase+1)/len(keeps))) })
		}
		workers.Wait()
		if before != nil {
			deleted += before.value(t, "purged_total", "keys")
			before.stop(t)
		}
		w, err := e.store.Watermark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watermarks, before = append(watermarks, w.At), p
	}
	deleted += before.value(t, "purged_total", "keys")
	if n := one[int](e.rig, `select count(*) from (select from intents group by caller, channel, key, revision having count(*) > 1) x`); n > 0 {
		t.Errorf("%d identities have more than one intent", n)
	}
	if d, s := e.count[intents.Duplicate].Load(), e.count[intents.Stale].Load(); d == 0 || s == 0 || deleted == 0 || e.revised.Load() == 0 {
		t.Errorf("%d were remembered, %d refused, %v facts forgotten, %d revised: this tests nothing", d, s, deleted, e.revised.Load())
	}
	if jump := watermarks[1].Sub(watermarks[0]); jump <= 0 || watermarks[2].Before(watermarks[1]) {
		t.Errorf("the watermark went %v", watermarks)
	}
	t.Logf("%d late duplicates in %v: %d remembered, %d refused, %d superseded, %d admitted anew; of %d intents %v facts were forgotten meanwhile; %d revisions, %d left unknown",
		e.sent.Load(), time.Since(begin).Round(time.Millisecond), e.count[intents.Duplicate].Load(), e.count[intents.Stale].Load(), e.count[intents.Superseded].Load(), e.count[intents.Accepted].Load(),
		one[int](e.rig, `select count(*) from intents`), deleted, e.revised.Load(), e.unknown.Load())
}

// known is what the first publication of a request was answered.
type known struct {
	ask     intents.Admission
	first   intents.VerdictKind
	unknown bool // its fact has an UNKNOWN revision, so it stays remembered
	revised bool // a newer revision was accepted
	refused bool
}

// work publishes facts around the edge and then the same again and again, until they are well behind it.
func (e *edge) work(t *testing.T, until int64) {
	for e.sent.Load() < until && !t.Failed() {
		w, err := e.store.Watermark(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		center := w.Now.Add(-time.Duration(e.keep.Load()))
		if w.At.After(center) {
			center = w.At // the window was raised: what counts is the watermark
		}
		wave := e.publish(t, center)
		for repeat := 0; repeat < 25 && e.sent.Load() < until && !t.Failed(); repeat++ {
			e.again(t, wave)
		}
	}
}

// publish admits some facts with times within a second of center, settles most of them, leaves some UNKNOWN, and revises some.
func (e *edge) publish(t *testing.T, center time.Time) (wave []*known) {
	const n = 40
	at := func() func(*intents.Admission) {
		return happened(center.Add(time.Duration(rand.Int64N(int64(2*time.Second))) - time.Second))
	}
	for range n {
		wave = append(wave, &known{ask: intenttest.Ask("l:"+uuid.NewString(), 0, intenttest.ClaimNow, at())})
	}
	e.first(t, wave)
	var revisions []*known
	for i, k := range wave {
		if i%4 == 0 && k.first == intents.Accepted {
			r := &known{ask: intenttest.Ask(string(k.ask.Identity.Key), 1, at()), unknown: k.unknown}
			revisions = append(revisions, r)
		}
	}
	if len(revisions) == 0 {
		return wave
	}
	e.first(t, revisions)
	var accepted []string
	for _, k := range wave {
		i := slices.IndexFunc(revisions, func(r *known) bool { return r.ask.Identity.Key == k.ask.Identity.Key })
		if k.revised = i >= 0 && revisions[i].first == intents.Accepted; k.revised {
			accepted = append(accepted, string(k.ask.Identity.Key))
		}
	}
	e.revised.Add(int64(len(accepted)))
	// Sent and settled, in short: the claim of revisions is not what is tested.
	e.exec(`with done as (update intents set state = 'succeeded', updated_at = now() where key = any($1::text[]) and revision = 1 returning id)
		delete from agenda a using done d where a.intent_id = d.id`, accepted)
	return append(wave, revisions...)
}

// first publishes requests for the first time and settles what was claimed.
func (e *edge) first(t *testing.T, wave []*known) {
	batch := intenttest.Batch()
	for _, k := range wave {
		batch.Admissions = append(batch.Admissions, k.ask)
	}
	vs, err := e.store.Admit(t.Context(), batch)
	if err != nil {
		t.Error(err)
		return
	}
	var ss []intents.Settlement
	for i, v := range vs {
		wave[i].first, wave[i].refused = v.Kind, v.Kind == intents.Stale
		switch {
		case v.Kind != intents.Accepted && v.Kind != intents.Stale:
			t.Errorf("published for the first time: %+v", v)
		case v.Claim != nil && i%10 == 3:
			wave[i].unknown = true
			e.unknown.Add(1)
			ss = append(ss, intenttest.Parked(*v.Claim, intenttest.Me))
		case v.Claim != nil:
			ss = append(ss, intenttest.Succeeded(*v.Claim, intenttest.Me))
		}
	}
	if _, err := e.store.Settle(t.Context(), ss, []uuid.UUID{batch.Batch}); err != nil {
		t.Error(err)
	}
}

// again publishes the requests once more: each is remembered or refused; one that was refused stays so; one in doubt stays remembered.
func (e *edge) again(t *testing.T, wave []*known) {
	batch := intenttest.Batch()
	for _, k := range wave {
		k.ask.Token = uuid.Must(uuid.NewV7())
		batch.Admissions = append(batch.Admissions, k.ask)
	}
	vs, err := e.store.Admit(t.Context(), batch)
	if err != nil {
		t.Error(err)
		return
	}
	e.sent.Add(int64(len(vs)))
	for i, v := range vs {
		k := wave[i]
		e.count[v.Kind].Add(1)
		// Where a fact was forgotten before its revision came, the revision alone is remembered, and it refuses what is older.
		good := v.Kind == intents.Superseded && k.revised ||
			v.Kind == intents.Stale && !(k.unknown && k.first == intents.Accepted) || v.Kind == intents.Duplicate && !k.refused
		if !good {
			t.Errorf("%s of %v, first %s, refused before %v, in doubt %v: %+v", k.ask.Identity.Key, k.ask.Meaning.OccurredAt, k.first, k.refused, k.unknown, v)
		}
		k.refused = k.refused || v.Kind == intents.Stale
	}
}
