package pgstore_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
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
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	s, err := pgstore.Open(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &bench{t: t, ctx: ctx, url: url, Store: s, db: pool(t, ctx, url)}
}

// pool is a way into the database that the store knows nothing of.
func pool(t testing.TB, ctx context.Context, url string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(ctx, url)
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

const (
	me   = "host-a/1"
	them = "host-b/2"
)

var happened = time.Now().UTC().Add(-time.Minute).Truncate(time.Microsecond)

// ask is an admission of the key's revision; how changes it before the fingerprint is made.
func ask(key string, revision int32, how ...func(*intents.Admission)) intents.Admission {
	a := intents.Admission{
		Token:     uuid.Must(uuid.NewV7()),
		Identity:  dedup.Identity{Caller: "shop", Channel: "mail", Key: dedup.Key(key), Revision: revision},
		Meaning:   dedup.Meaning{Recipient: "ada@example.org", Content: []byte(`{"text":"hello"}`), OccurredAt: happened},
		Guarantee: channels.DuplicateVisible, EffectKey: "effect-" + key, CollapseKey: "collapse-" + key, KeyScope: "scope",
		Rendered: []byte("rendered " + key), Priority: intents.Normal,
	}
	for _, h := range how {
		h(&a)
	}
	if a.Fingerprint == (dedup.Fingerprint{}) {
		a.Fingerprint = a.Meaning.Fingerprint()
	}
	hash := sha256.Sum256([]byte(a.Meaning.Recipient))
	a.RecipientHash = hash[:]
	return a
}

func text(s string) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Meaning.Content = fmt.Appendf(nil, `{"text":%q}`, s) }
}
func channel(name string) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Identity.Channel = name }
}
func now(a *intents.Admission) { a.ClaimNow, a.Guarantee = true, channels.Keyed }

func batchOf(as ...intents.Admission) intents.AdmitBatch {
	return intents.AdmitBatch{Admissions: as, Batch: uuid.New(), Owner: me, Lease: time.Minute}
}

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

func wish(channel, owner string, n int) intents.ClaimRequest {
	return intents.ClaimRequest{Channel: channel, KeyScope: "scope", Owner: owner, Lease: time.Minute, N: n, Token: uuid.New()}
}

// outcome is a settlement of the claim by its owner.
func outcome(c intents.Claim, owner string, t intents.Transition, o channels.Outcome) intents.Settlement {
	return intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: owner, Transition: t, Outcome: o, Took: 20 * time.Millisecond}
}

func succeeded(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeAccepted("provider-7", "250", "taken")
	return outcome(c, owner, intents.Succeed(o), o)
}

func notSent(c intents.Claim, owner string, delay time.Duration) intents.Settlement {
	o := channels.OutcomeNotSent(channels.PhaseConnect, "dial", "refused")
	return outcome(c, owner, intents.Retry(o, delay, true), o)
}

func resend(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "no reply")
	return outcome(c, owner, intents.Resend(o, 0, true), o)
}

func park(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "no reply")
	return outcome(c, owner, intents.Park(o.Code(), o.Message(), true), o)
}

func handBack(c intents.Claim, owner string) intents.Settlement {
	return intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: owner, Transition: intents.HandBack("too late"), NoAttempt: true}
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
	cs, err := b.TakeOver(b.ctx, []string{"mail"}, owner, time.Minute, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return cs
}

// pass lets d pass for everything that is stored.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	b.exec(`update intents set lease_until = lease_until - $1::interval, claimed_at = claimed_at - $1::interval, first_used_at = first_used_at - $1::interval, not_before = not_before - $1::interval, expires_at = expires_at - $1::interval`, d)
	b.exec(`update agenda set at = at - $1::interval, expires_at = expires_at - $1::interval`, d)
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
