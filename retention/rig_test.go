package retention_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
	"github.com/onebell/onebell/retention"
)

var _ retention.Store = (*pgstore.Store)(nil)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	day      = 24 * time.Hour
	patience = 2 * time.Minute
)

// windows are those of the tests that do not care.
var windows = retention.Windows{Keys: 4 * day, Contents: 2 * day, Intents: 30 * day}

// rig is a store on a database of the test's own, and a second way into it.
type rig struct {
	t     testing.TB
	store *pgstore.Store
	db    *pgxpool.Pool
}

func newRig(t testing.TB) *rig {
	t.Helper()
	url := pgtest.New(t)
	s, err := pgstore.Open(t.Context(), url, pgstore.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return &rig{t, s, db}
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	rows, _ := r.db.Query(r.t.Context(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// settled admits and settles n facts, and has all that have been d ago. Their keys are there before they are old: behind the watermark nothing
// new is admitted.
func (r *rig) settled(n int, d time.Duration) {
	r.t.Helper()
	var as []intents.Admission
	var keys []string
	for range n {
		keys = append(keys, "s:"+uuid.NewString())
		as = append(as, intenttest.Ask(keys[len(keys)-1], 0, intenttest.ClaimNow))
	}
	batch := intenttest.Batch(as...)
	vs, err := r.store.Admit(r.t.Context(), batch)
	if err != nil {
		r.t.Fatal(err)
	}
	var ss []intents.Settlement
	for _, v := range vs {
		ss = append(ss, intenttest.Succeeded(*v.Claim, intenttest.Me))
	}
	if _, err := r.store.Settle(r.t.Context(), ss, []uuid.UUID{batch.Batch}); err != nil {
		r.t.Fatal(err)
	}
	then := time.Now().Add(-d) // one instant: what belongs together stays so
	for _, column := range []string{"keys.intent_id", "contents.intent_id", "attempts.intent_id", "intents.id"} {
		table, id, _ := strings.Cut(column, ".")
		r.exec(fmt.Sprintf(`update %[1]s set %[2]s = (lpad(to_hex(floor(extract(epoch from $1::timestamptz) * 1000)::bigint), 12, '0') ||
			substr(replace(%[2]s::text, '-', ''), 13))::uuid where %[2]s = any($2::uuid[])`, table, id), then, ids(ss))
	}
	r.exec(`with aged as (update intents set occurred_at = now() - $2::interval, created_at = now() - $2::interval, updated_at = now() - $2::interval
			where key = any($1::text[]) returning fact, occurred_at)
		update keys k set occurred_at = a.occurred_at from aged a where a.fact = k.fact`, keys, d)
}

func ids(ss []intents.Settlement) (out []uuid.UUID) {
	for _, s := range ss {
		out = append(out, s.ID)
	}
	return out
}

func happened(at time.Time) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Meaning.OccurredAt = at.UTC().Truncate(time.Microsecond) }
}

// purger is a running one.
type purger struct {
	*retention.Purger
	metrics *prometheus.Registry
	log     *lines
}

// start starts a purger that goes its rounds fast; it is stopped when the test ends.
func (r *rig) start(owner string, w retention.Windows, store retention.Store) *purger {
	r.t.Helper()
	p := &purger{metrics: prometheus.NewRegistry(), log: &lines{}}
	var err error
	p.Purger, err = retention.New(retention.Config{
		Owner: owner, Windows: w, Every: 20 * time.Millisecond, Store: store, Metrics: p.metrics,
		Log: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	p.Start()
	r.t.Cleanup(func() { p.stop(r.t) })
	return p
}

func (p *purger) stop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// value reads a metric; label is "" for one without.
func (p *purger) value(t testing.TB, name, label string) float64 {
	t.Helper()
	families, err := p.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "onebell_"+name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("this never came to be: %s", what)
		}
	}
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}
