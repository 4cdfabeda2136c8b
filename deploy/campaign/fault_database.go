package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/deploy/local"
)

// databaseFaults disturbs the database, one thing after the other, until ctx ends. Each is mended by itself before the next.
type databaseFaults struct {
	db     *database
	rnd    *rand.Rand
	record *record
}

func (f *databaseFaults) run(ctx context.Context) error {
	for pause(ctx, between(f.rnd, 500*time.Millisecond, 2500*time.Millisecond)) {
		do, how := pick(f.rnd, []func(context.Context, *rand.Rand) error{
			f.restart, f.terminate, f.terminate, f.lock, f.lock, f.lock, f.readOnly, f.fewConnections,
		}), rand.New(rand.NewPCG(f.rnd.Uint64(), 0))
		if err := do(context.WithoutCancel(ctx), how); err != nil {
			return err
		}
	}
	return nil
}

// restart takes the server down, in one of three ways, and brings it up again.
func (f *databaseFaults) restart(ctx context.Context, rnd *rand.Rand) error {
	way, down := rnd.IntN(3), between(rnd, 0, 1500*time.Millisecond)
	var err error
	switch way {
	case 0:
		err = f.db.server.Stop(local.Fast)
	case 1:
		err = f.db.server.Stop(local.Immediate)
	default:
		err = f.db.server.Kill()
	}
	if err != nil {
		return err
	}
	f.record.add("F4 PostgreSQL " + []string{"restarted", "crashed (immediate)", "killed (SIGKILL)"}[way])
	pause(ctx, down)
	return f.db.server.Restart(ctx)
}

// terminate ends the dispatchers' sessions.
func (f *databaseFaults) terminate(ctx context.Context, _ *rand.Rand) error {
	n, err := f.cutSessions(ctx)
	if n > 0 {
		f.record.add("F4 sessions terminated")
	}
	return err
}

func (f *databaseFaults) cutSessions(ctx context.Context) (n int, err error) {
	err = f.within(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = $1 and datname = $2",
			databaseRole, f.db.name).Scan(&n)
	})
	return n, err
}

// lock holds a table; from some seconds on, statements that need it are cancelled by their own limit.
func (f *databaseFaults) lock(ctx context.Context, rnd *rand.Rand) error {
	table := pick(rnd, []string{"intents", "keys", "agenda", "attempts", "contents", "outbox", "claim_batches", "watermark", "refusals"})
	long := between(rnd, 200*time.Millisecond, 2*time.Second)
	if rnd.IntN(4) == 0 {
		long = between(rnd, 5*time.Second, 7*time.Second)
	}
	return f.within(ctx, func(conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tx.Exec(ctx, "lock table "+table+" in access exclusive mode"); err != nil {
			return err
		}
		waited := 0
		for end := time.Now().Add(long); time.Now().Before(end) && pause(ctx, 100*time.Millisecond); {
			var n int
			if err := tx.QueryRow(ctx, "select count(*) from pg_locks where not granted").Scan(&n); err != nil {
				return err
			}
			waited = max(waited, n)
		}
		if waited > 0 {
			f.record.add("F7 table locked")
		}
		return nil
	})
}

// readOnly makes the server answer as a standby does after a failover, until the failover is undone.
func (f *databaseFaults) readOnly(ctx context.Context, rnd *rand.Rand) error {
	long := between(rnd, 300*time.Millisecond, 2500*time.Millisecond)
	if err := f.db.exec(ctx, fmt.Sprintf("alter database %s set default_transaction_read_only = on", f.db.name)); err != nil {
		return err
	}
	n, err := f.cutSessions(ctx)
	if err != nil {
		return err
	}
	pause(ctx, long)
	if err := f.db.exec(ctx, fmt.Sprintf("alter database %s reset default_transaction_read_only", f.db.name)); err != nil {
		return err
	}
	if n > 0 {
		f.record.add("F7 read-only failover")
	}
	return nil // sessions that began meanwhile stay read-only: to leave them is the dispatcher's part
}

// fewConnections leaves all dispatchers together less than one of them would like.
func (f *databaseFaults) fewConnections(ctx context.Context, rnd *rand.Rand) error {
	limit, long := rnd.IntN(6), between(rnd, 300*time.Millisecond, 3*time.Second)
	if err := f.db.exec(ctx, fmt.Sprintf("alter role %s connection limit %d", databaseRole, limit)); err != nil {
		return err
	}
	n, err := f.cutSessions(ctx)
	if err != nil {
		return err
	}
	pause(ctx, long)
	if err := f.db.exec(ctx, fmt.Sprintf("alter role %s connection limit -1", databaseRole)); err != nil {
		return err
	}
	if n > limit {
		f.record.add("F7 connections limited")
	}
	return nil
}

func (f *databaseFaults) within(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := f.db.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(conn)
}
