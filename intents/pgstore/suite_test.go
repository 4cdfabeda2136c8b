package pgstore_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

func TestStore(t *testing.T) {
	intenttest.Run(t, func(t *testing.T) intenttest.Subject {
		b := newBench(t)
		return intenttest.Subject{Store: b.Store, Pass: func(t testing.TB, d time.Duration) { b.pass(d) }, Attempts: b.attempts}
	})
}

// attempts reads an intent's attempts.
func (b *bench) attempts(t testing.TB, id uuid.UUID) []intents.Attempt {
	t.Helper()
	rows, _ := b.db.Query(b.ctx, `select generation, owner, started_at, ended_at, result, phase, code, message, provider_id, state
		from attempts where intent_id = $1 order by generation`, id)
	as, err := pgx.CollectRows(rows, pgx.RowToStructByPos[intents.Attempt])
	if err != nil {
		t.Fatal(err)
	}
	return as
}
