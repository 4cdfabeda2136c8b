package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/sandbox"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
)

const (
	benchCaller  = "bench"
	benchChannel = "box"
)

// benchIntake brings everything up, measures both ways, and takes everything down.
func benchIntake(ctx context.Context, o benchOptions, stderr *os.File) (res benchResult, err error) {
	quiet := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	early, err := loadEarly()
	if err != nil {
		return res, err
	}
	s, err := startStack(ctx, stackOptions{databaseURL: early.DatabaseURL.value, durable: o.durable}, quiet)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, s.down.run(context.WithoutCancel(ctx), quiet)) }()
	cfg, err := s.config(list{benchChannel + ":sandbox"}, func(*Config) {})
	if err != nil {
		return res, err
	}
	settings := cfg.instances[0].env.settings()
	registry, err := channels.NewRegistry(channels.Entry{Name: benchChannel, Type: "sandbox", Channel: sandbox.NoOp(), Settings: settings})
	if err != nil {
		return res, err
	}
	app, err := newAppWith(cfg, registry, quiet)
	if err != nil {
		return res, err
	}
	run := uuid.NewString()[:8]
	requests := benchRequests(o.n, run)
	if res.Conditions, err = conditions(ctx, s.databaseURL, o); err != nil {
		return res, err
	}
	published, err := benchPublish(ctx, cfg, requests, quiet)
	if err != nil {
		return res, err
	}
	through, err := benchService(ctx, app, o.n)
	if err != nil {
		return res, err
	}
	alone, err := benchDatabase(ctx, app, o, run)
	if err != nil {
		return res, err
	}
	res.Conditions.PayloadBytes = len(requests[0])
	res.N, res.Publish = o.n, perSecond(o.n, published)
	res.ServiceTook, res.Service = through.Seconds(), perSecond(o.n, through)
	res.DatabaseTook, res.Database = alone.Seconds(), perSecond(o.n, alone)
	res.Share = res.Service / res.Database
	return res, nil
}

func benchRequests(n int, run string) [][]byte {
	at := time.Now().UTC().Format(time.RFC3339Nano)
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, `{"key":"bench:%s:%d","occurred_at":%q,"recipient":"nobody","content":{"text":"number %d"}}`, run, i, at, i)
	}
	return out
}

// benchPublish puts all requests into the stream, before anybody takes them out.
func benchPublish(ctx context.Context, cfg Config, requests [][]byte, log *slog.Logger) (time.Duration, error) {
	nc, err := connectBroker(cfg, dispatcherUser, log, nil)
	if err != nil {
		return 0, err
	}
	defer closeBroker(nc)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return 0, err
	}
	if err := dispatch.EnsureStreams(ctx, js, true); err != nil {
		return 0, err
	}
	start := time.Now()
	for _, payload := range requests {
		if _, err := js.PublishAsync(wire.RequestSubject(benchCaller, benchChannel), payload, jetstream.WithStallWait(time.Minute)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return time.Since(start), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// benchService starts the process on the full stream and waits until the ledger shows all of it settled.
func benchService(ctx context.Context, app *App, n int) (took time.Duration, err error) {
	start := time.Now()
	if err := app.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, app.Stop(context.WithoutCancel(ctx))) }()
	for {
		st, err := app.store.Stats(ctx, benchCaller, start.Add(-time.Minute))
		if err != nil {
			return 0, err
		}
		if settledOn(st, benchChannel) >= int64(n) {
			return time.Since(start), nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func settledOn(st intents.Stats, channel string) int64 {
	for _, c := range st.Channels {
		if c.Channel == channel {
			return c.ByState[intents.Succeeded]
		}
	}
	return 0
}

// benchDatabase makes the store calls that the service makes, and nothing else, on a store of its own.
func benchDatabase(ctx context.Context, app *App, o benchOptions, run string) (time.Duration, error) {
	store, err := pgstore.Open(ctx, app.cfg.DatabaseURL.value, pgstore.Options{MaxConns: int32(o.writers)})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	entry, _ := app.registry.Lookup(benchChannel)
	var batches []intents.AdmitBatch
	for from := 0; from < o.n; from += o.batch {
		b, err := benchBatch(app.deriver, entry, run, from, min(from+o.batch, o.n))
		if err != nil {
			return 0, err
		}
		batches = append(batches, b)
	}
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.writers)
	for _, b := range batches {
		group.Go(func() error { return admitAndSettle(ctx, store, b) })
	}
	err = group.Wait()
	return time.Since(start), err
}

// benchBatch renders and fingerprints beforehand: the comparison is with the statements alone.
func benchBatch(deriver *dedup.Deriver, e channels.Entry, run string, from, to int) (intents.AdmitBatch, error) {
	contract := e.Channel.Contract()
	batch := intents.AdmitBatch{Batch: uuid.New(), Owner: "bench/" + run, Lease: intents.LeaseFor(contract.AttemptTimeout)}
	format, err := dedup.ParseFormat(contract.KeyFormat)
	if err != nil {
		return batch, err
	}
	at := dedup.Instant(time.Now())
	for i := from; i < to; i++ {
		content := json.RawMessage(fmt.Sprintf(`{"text":"number %d"}`, i))
		id := dedup.Identity{Caller: benchCaller + "-alone", Channel: e.Name, Key: dedup.Key(fmt.Sprintf("bench:%s:%d", run, i))}
		meaning, err := dedup.NewMeaning("nobody", content, "", at)
		if err != nil {
			return batch, err
		}
		key, err := deriver.EffectKey(id).Encode(format)
		if err != nil {
			return batch, err
		}
		rendered, err := e.Channel.Render(channels.Message{EffectKey: key, Recipient: "nobody", Content: content, OccurredAt: at, Date: at})
		if err != nil {
			return batch, err
		}
		token, err := uuid.NewV7()
		if err != nil {
			return batch, err
		}
		batch.Admissions = append(batch.Admissions, intents.Admission{
			Token: token, Identity: id, Meaning: meaning, Fingerprint: meaning.Fingerprint(), Guarantee: contract.Guarantee, EffectKey: key,
			KeyScope: contract.KeyScope, RecipientHash: deriver.RecipientHash("nobody"), Rendered: rendered, Priority: intents.Normal, ClaimNow: true,
		})
	}
	return batch, nil
}

func admitAndSettle(ctx context.Context, store *pgstore.Store, batch intents.AdmitBatch) error {
	verdicts, err := store.Admit(ctx, batch)
	if err != nil {
		return err
	}
	outcome := channels.OutcomeAccepted("bench", "", "")
	settlements := make([]intents.Settlement, 0, len(verdicts))
	for _, v := range verdicts {
		if v.Claim == nil {
			return fmt.Errorf("a fresh key was answered %s without a claim", v.Kind)
		}
		settlements = append(settlements, intents.Settlement{
			ID: v.Claim.ID, Generation: v.Claim.Generation, Owner: batch.Owner, Transition: intents.Succeed(outcome), Outcome: outcome, Took: time.Millisecond,
		})
	}
	settled, err := store.Settle(ctx, settlements, []uuid.UUID{batch.Batch})
	if err != nil {
		return err
	}
	for _, s := range settled {
		if s.Fenced || s.Missing || s.State != intents.Succeeded {
			return fmt.Errorf("a settlement did not hold: %s", s.State)
		}
	}
	return nil
}

func conditions(ctx context.Context, url string, o benchOptions) (benchConditions, error) {
	c := benchConditions{Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Batch: o.batch, Writers: o.writers, BrokerSync: map[bool]string{true: "always", false: "default"}[o.durable]}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return c, errors.New("the database does not answer")
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, `select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).
		Scan(&c.PostgreSQL, &c.Fsync, &c.SynchronousCommit)
	return c, err
}

// wait waits, or not that long when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
