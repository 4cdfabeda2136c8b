package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// transition is a change of state that no attempt explains.
type transition struct {
	id         uuid.UUID
	generation int32
	from, to   intents.State
}

func scanTransition(row pgx.CollectableRow) (t transition, err error) {
	err = row.Scan(&t.id, &t.generation, &t.from, &t.to)
	return t, err
}

// cause says why a transition was made.
type cause struct {
	name, actor, detail string
	delay               time.Duration // until an intent that went back to PENDING is due
}

// note does what follows from transitions that the transaction has made: the record, the agenda, the events.
func note(ctx context.Context, tx pgx.Tx, made []transition, why cause) error {
	if len(made) == 0 {
		return nil
	}
	n := len(made)
	ids, generations, from, to := columns(made)
	var noted int
	err := tx.QueryRow(ctx, noteChangesSQL, ids, generations, from, to, why.name, clean(why.actor), clean(why.detail), why.delay).Scan(&noted)
	if err == nil && noted != n {
		err = fmt.Errorf("%d of %d changes were found again", noted, n) // the rows are locked: this cannot be
	}
	return err
}
