package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onebell/onebell/intents"
)

// maxTries bounds how often one step is tried; together with the pauses it outlasts a deadlock or a broken pool, not an outage.
const maxTries = 4

// do runs step on a connection of its own. Steps recognise their own work, so that one that failed may be done again even when
// it is not known whether it took effect; do tries again after failures that another try, or another connection, may cure.
// Step must not use the pool.
func (s *Store) do(ctx context.Context, what string, step func(context.Context, *pgx.Conn) error) error {
	for try := 1; ; try++ {
		err := s.once(ctx, step)
		if err == nil {
			return nil
		}
		cure := cureFor(err)
		if cure == newPool {
			s.pool.Reset() // the server's mood is every connection's: after a failover all of them lead to the old one
		}
		if cure == none || try == maxTries || !pause(ctx, try) {
			return &storeError{what, err}
		}
		s.log.InfoContext(ctx, "a step in the database is tried again", "step", what, "try", try, "error", &storeError{what, err})
	}
}

// doTx is do with a transaction around the step.
func (s *Store) doTx(ctx context.Context, what string, step func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return step(ctx, tx) })
	})
}

func (s *Store) once(ctx context.Context, step func(context.Context, *pgx.Conn) error) error {
	return s.within(ctx, stepFor, step)
}

// within runs step once, on a connection of its own, no longer than limit.
func (s *Store) within(ctx context.Context, limit time.Duration, step func(context.Context, *pgx.Conn) error) error {
	acquiring, cancel := context.WithTimeout(ctx, acquireFor)
	defer cancel()
	conn, err := s.pool.Acquire(acquiring)
	if err != nil {
		return err
	}
	defer conn.Release()
	stepping, cancelStep := context.WithTimeout(ctx, limit)
	defer cancelStep()
	return step(stepping, conn.Conn())
}

type cure int

const (
	none cure = iota
	again
	newPool
)

// cureFor says what may help against err.
func cureFor(err error) cure {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errUndecided) || errors.Is(err, errDryRun) ||
		errors.As(err, new(*AtWorkError)) {
		return none
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return again // the connection broke, or there was none
	}
	switch pg.Code {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock timeout
		return again
	case "25006", "0A000": // a server that became read-only; a plan whose table changed
		return newPool
	}
	switch pg.Code[:2] {
	case "53": // resources: too many connections, memory
		return again
	case "08", "57": // connection, shutdown
		if pg.Code == "57014" { // statement timeout: a second try would only add to the load
			return none
		}
		return newPool
	}
	return none
}

// isData says that the statement failed because of a value in it, which another try will not cure.
func isData(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "54": // data, integrity, limits of the server
		return true
	}
	return false
}

// pause waits before the next try, longer each time and never in step with others; false when ctx ended.
func pause(ctx context.Context, try int) bool {
	d := 10 * time.Millisecond << (2 * (try - 1))
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// storeError keeps values out of its text: the server quotes them in its messages about bad data.
type storeError struct {
	what string
	err  error
}

func (e *storeError) Error() string {
	var pg *pgconn.PgError
	if errors.As(e.err, &pg) && isData(e.err) {
		return fmt.Sprintf("%s: the database refused a value (SQLSTATE %s, table %q, constraint %q)", e.what, pg.Code, pg.TableName, pg.ConstraintName)
	}
	return e.what + ": " + e.err.Error()
}

func (e *storeError) Unwrap() error { return e.err }

// Is makes an error about a value an intents.ErrUnstorable.
func (e *storeError) Is(target error) bool { return target == intents.ErrUnstorable && isData(e.err) }
