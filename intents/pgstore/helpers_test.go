package pgstore_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

// bench is a store on a database of the test's own, and a second way into that database.
type bench struct {
	t   testing.TB
	ctx context.Context
	url string
	*pgstore.Store
	db *pgxpool.Pool
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return benchAt(t, pgtest.New(t), pgstore.Options{MaxConns: 4, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

func benchAt(t testing.TB, url string, o pgstore.Options) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	t.Cleanup(cancel)
	s, err := pgstore.Open(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &bench{t: t, ctx: ctx, url: url, Store: s, db: pool(t, ctx, url)}
}

// patience is longer than a slow machine takes for anything that is waited for.
const patience = 3 * time.Minute

// bystander names the connections of the tests themselves, which cutting the store's connections spares.
const bystander = "a test's own"

// pool is a way into the database that the store knows nothing of.
func pool(t testing.TB, ctx context.Context, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = bystander
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the single value that sql reads.
func one[T any](b *bench, sql string, args ...any) T {
	b.t.Helper()
	rows, _ := b.db.Query(b.ctx, sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// The kit's names, for short.
const (
	me   = intenttest.Me
	them = intenttest.Them
)

var (
	ask       = intenttest.Ask
	text      = intenttest.Text
	now       = intenttest.ClaimNow
	batchOf   = intenttest.Batch
	wish      = intenttest.Wish
	succeeded = intenttest.Succeeded
	notSent   = intenttest.NotSent
	resent    = intenttest.Resent
	parked    = intenttest.Parked
	handBack  = intenttest.HandedBack
	leaseOver = intenttest.LeaseOver
)

// admit admits and returns the verdicts; it fails the test on an error.
func (b *bench) admit(as ...intents.Admission) []intents.Verdict {
	b.t.Helper()
	return b.admitBatch(batchOf(as...))
}

func (b *bench) admitBatch(batch intents.AdmitBatch) []intents.Verdict {
	b.t.Helper()
	vs, err := b.Admit(b.ctx, batch)
	if err != nil {
		b.t.Fatal(err)
	}
	return vs
}

// claim claims up to n of "mail" for owner.
func (b *bench) claim(owner string, n int) []intents.Claim {
	b.t.Helper()
	cs, err := b.Claim(b.ctx, wish("mail", owner, n))
	if err != nil {
		b.t.Fatal(err)
	}
	return cs
}

// claimOne claims the only thing that is due.
func (b *bench) claimOne(owner string) intents.Claim {
	b.t.Helper()
	cs := b.claim(owner, 10)
	if len(cs) != 1 {
		b.t.Fatalf("%d claims, want 1", len(cs))
	}
	return cs[0]
}

func (b *bench) settle(ss ...intents.Settlement) []intents.Settled {
	b.t.Helper()
	out, err := b.Settle(b.ctx, ss, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// takeOver takes over what is over on "mail" for owner.
func (b *bench) takeOver(owner string) []intents.Claim {
	b.t.Helper()
	cs, err := b.TakeOver(b.ctx, []string{"mail"}, owner, intenttest.Lease, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return cs
}

// pass lets d pass for everything that is stored.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	b.exec(`update intents set lease_until = lease_until - $1::interval, claimed_at = claimed_at - $1::interval, first_used_at = first_used_at - $1::interval, not_before = not_before - $1::interval, expires_at = expires_at - $1::interval`, d)
	b.exec(`update agenda set at = at - $1::interval, look_at = look_at - $1::interval, expires_at = expires_at - $1::interval`, d)
	b.exec(`update claim_batches set lease_until = lease_until - $1::interval`, d)
	b.exec(`update duties set lease_until = lease_until - $1::interval`, d)
	b.exec(`update channel_states set paused_until = paused_until - $1::interval`, d)
}

func (b *bench) find(key string, revision int32) intents.Intent {
	b.t.Helper()
	i, found, err := b.FindByIdentity(b.ctx, ask(key, revision).Identity)
	if err != nil || !found {
		b.t.Fatalf("find %s: found %v, %v", key, found, err)
	}
	return i
}

// wantState fails unless the key's intent is in that state.
func (b *bench) wantState(key string, revision int32, want intents.State) intents.Intent {
	b.t.Helper()
	i := b.find(key, revision)
	if i.State != want {
		b.t.Fatalf("%s revision %d is %s (%s), want %s", key, revision, i.State, i.Code, want)
	}
	return i
}
