package retention_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/retention"
)

// Each kind goes when its own window is over, and what is inside stays. More than one step of each, and by itself.
func TestEverythingGoesWhenItsWindowIsOver(t *testing.T) {
	r := newRig(t)
	r.settled(700, 40*day)
	r.settled(30, 10*day)
	r.settled(20, 3*day)
	r.settled(10, time.Hour)
	r.exec(`insert into refusals select gen_random_uuid(), now() - n * interval '15 days', 'stale', '', '', '{}', '', '', '', 0, null, '', 0, '' from generate_series(1, 4) n`)
	p := r.start("a", windows, r.store)
	for table, want := range map[string]int{"keys": 30, "contents": 10, "intents": 60, "attempts": 60, "refusals": 1} {
		eventually(t, table+" inside the window alone", func() bool { return one[int](r, `select count(*) from `+table) == want })
	}
	for kind, want := range map[intents.PurgeKind]float64{intents.PurgeKeys: 730, intents.PurgeIntents: 700, intents.PurgeContents: 750, intents.PurgeRefusals: 3} {
		eventually(t, string(kind)+" deleted are counted", func() bool { return p.value(t, "purged_total", string(kind)) == want })
		eventually(t, string(kind)+" wait no more", func() bool { return p.value(t, "purge_oldest_seconds", string(kind)) == 0 })
	}
	if age := p.value(t, "watermark_age_seconds", ""); age < (4*day).Seconds() || age > (5*day).Seconds() {
		t.Errorf("the watermark is %v s old", age)
	}
	if w := p.value(t, "purge_window_seconds", "contents"); w != (2 * day).Seconds() {
		t.Errorf("the window of contents is %v s", w)
	}
	if n := p.log.count("msg=retention keys=96h0m0s contents=48h0m0s intents=720h0m0s refusals=720h0m0s"); n != 1 {
		t.Error("the log does not say which windows apply")
	}
}

// O4: a purge that fails is tried again by itself, says so once, counts, and shows the age of what waits.
func TestO4AFailingPurgeIsSeenAndGoesOn(t *testing.T) {
	r := newRig(t)
	r.settled(5, 40*day)
	broken := &breaking{Store: r.store, kind: intents.PurgeKeys}
	broken.broken.Store(true)
	p := r.start("a", windows, broken)
	failures := func() float64 { return p.value(t, "purge_failures_total", "keys") }
	eventually(t, "three failures", func() bool { return failures() >= 3 })
	eventually(t, "the others go on", func() bool { return one[int](r, `select count(*) from contents`) == 0 })
	eventually(t, "the age of what waits", func() bool { return p.value(t, "purge_oldest_seconds", "keys") >= (40 * day).Seconds() })
	if n := p.log.count("a purge does not get on"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	broken.broken.Store(false)
	eventually(t, "the next round does it", func() bool { return one[int](r, `select count(*) from keys`) == 0 })
	eventually(t, "nothing waits", func() bool { return p.value(t, "purge_oldest_seconds", "keys") == 0 })
	eventually(t, "the end of it is said", func() bool { return p.log.count("a purge gets on again") == 1 })
}

// breaking is a store one of whose purges fails.
type breaking struct {
	retention.Store
	kind   intents.PurgeKind
	broken atomic.Bool
}

func (b *breaking) Purge(ctx context.Context, kind intents.PurgeKind, keep time.Duration, rows []intents.PurgeMark) (int, error) {
	if kind == b.kind && b.broken.Load() {
		return 0, errors.New("lock timeout")
	}
	return b.Store.Purge(ctx, kind, keep, rows)
}

// O4, on the wire: the table is locked by somebody for longer than a statement waits, and then no more.
func TestO4ALockedTable(t *testing.T) {
	r := newRig(t)
	r.settled(5, 40*day)
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `lock table keys in share row exclusive mode`); err != nil {
		t.Fatal(err)
	}
	p := r.start("a", windows, r.store)
	eventually(t, "a failure", func() bool { return p.value(t, "purge_failures_total", "keys") >= 1 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the keys go", func() bool { return one[int](r, `select count(*) from keys`) == 0 })
}

// A clock that may be wrong forgets nothing.
func TestNothingIsForgottenByAClockThatMayBeWrong(t *testing.T) {
	r := newRig(t)
	r.settled(5, 40*day)
	wrong := &wrongClock{Store: r.store}
	wrong.ahead.Store(int64(2 * day))
	p := r.start("a", windows, wrong)
	eventually(t, "two refusals to purge", func() bool { return p.value(t, "purge_failures_total", "clock") >= 2 })
	if w, err := r.store.Watermark(t.Context()); err != nil || !w.At.IsZero() {
		t.Errorf("the watermark moved: %+v, %v", w, err)
	}
	if n := one[int](r, `select count(*) from contents`); n != 5 {
		t.Errorf("%d contents are left", n)
	}
	wrong.ahead.Store(0)
	eventually(t, "the contents go", func() bool { return one[int](r, `select count(*) from contents`) == 0 })
}

type wrongClock struct {
	retention.Store
	ahead atomic.Int64
}

func (c *wrongClock) Watermark(ctx context.Context) (intents.Watermark, error) {
	w, err := c.Store.Watermark(ctx)
	w.Now = w.Now.Add(time.Duration(c.ahead.Load()))
	return w, err
}

// One process purges at a time; the next one takes over at once from one that leaves, and all of them say what waits.
func TestOneAtATime(t *testing.T) {
	r := newRig(t)
	first := r.start("a", windows, r.store)
	eventually(t, "the first one is on duty", func() bool { return one[int](r, `select count(*) from duties where owner = 'a'`) == 1 })
	second := r.start("b", retention.Windows{Keys: 5 * day, Contents: day, Intents: 30 * day}, r.store)
	r.settled(5, 40*day)
	eventually(t, "the keys go", func() bool { return one[int](r, `select count(*) from keys`) == 0 })
	eventually(t, "the second one looks", func() bool { return second.value(t, "purge_oldest_seconds", "keys") == 0 })
	if n := second.value(t, "purged_total", "keys"); n != 0 {
		t.Errorf("the second one deleted %v", n)
	}
	first.stop(t)
	r.settled(5, 40*day)
	eventually(t, "the second one takes over", func() bool { return second.value(t, "purged_total", "keys") == 5 })
}

// A purge that is told to stop in the middle of a long backlog, or while the database hangs, ends soon.
func TestStopEndsABacklog(t *testing.T) {
	r := newRig(t)
	r.settled(3000, 40*day)
	hanging := &hangingStore{Store: r.store, entered: make(chan struct{}, 1)}
	p, err := retention.New(retention.Config{Owner: "a", Windows: windows, Store: hanging, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p.Start()
	<-hanging.entered
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
	if n := one[int](r, `select count(*) from duties where lease_until > now()`); n != 0 {
		t.Error("the duty was not given up")
	}
	if left := one[int](r, `select count(*) from keys`); left == 3000 || left == 0 {
		t.Errorf("%d keys are left; it was to be stopped in the middle", left)
	}
}

// hangingStore hangs, heeding its context, after a first step.
type hangingStore struct {
	retention.Store
	steps   atomic.Int64
	entered chan struct{}
}

func (h *hangingStore) Purge(ctx context.Context, kind intents.PurgeKind, keep time.Duration, rows []intents.PurgeMark) (int, error) {
	if h.steps.Add(1) == 1 {
		return h.Store.Purge(ctx, kind, keep, rows)
	}
	select {
	case h.entered <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// What a configuration lacks is said before anything starts.
func TestNewRefusesWhatCannotWork(t *testing.T) {
	r := newRig(t)
	log := slog.New(slog.DiscardHandler)
	for _, c := range []retention.Config{
		{Windows: windows, Store: r.store, Log: log},
		{Owner: "a", Windows: windows, Log: log},
		{Owner: "a", Windows: windows, Store: r.store},
		{Owner: "a", Store: r.store, Log: log},
	} {
		if _, err := retention.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
