package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// lateFinisher is the source of evidence that comes from a claim's own owner, too late to settle.
const lateFinisher = "late-finisher"

// Witness records the outcome of a claim that is no longer ours as evidence, once, and settles the intent where that is definite.
// See dispatch.Store.
func (s *Store) Witness(ctx context.Context, settlement intents.Settlement) (settled intents.Settled, err error) {
	err = s.doTx(ctx, "witness", func(ctx context.Context, tx pgx.Tx) (err error) {
		settled, err = witness(ctx, tx, settlement)
		return err
	})
	return settled, err
}

func witness(ctx context.Context, tx pgx.Tx, st intents.Settlement) (intents.Settled, error) {
	var present present
	err := tx.QueryRow(ctx, witnessLockSQL, st.ID, st.Generation, st.Owner).Scan(&present.state, &present.generation, &present.doubt,
		&present.duplicates, &present.superseded, &present.tookOver)
	if errors.Is(err, pgx.ErrNoRows) {
		return intents.Settled{ID: st.ID, Fenced: true, Missing: true}, nil
	}
	if err != nil {
		return intents.Settled{}, err
	}
	var before bool
	switch err := tx.QueryRow(ctx, evidenceKnownSQL, st.ID, st.Generation).Scan(&before); {
	case err == nil:
		return intents.Settled{ID: st.ID, State: present.state, Fenced: !before}, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return intents.Settled{}, err
	}
	to, settles := present.testimony(st)
	o := st.Outcome
	if _, err := tx.Exec(ctx, evidenceSQL, st.ID, lateFinisher, st.Generation, o.Result().String(), clean(o.Code()), clean(o.Message()),
		clean(o.ProviderID()), settles); err != nil {
		return intents.Settled{}, err
	}
	if !settles {
		return intents.Settled{ID: st.ID, State: present.state, Fenced: true}, nil
	}
	return intents.Settled{ID: st.ID, State: to}, present.settle(ctx, tx, st, to)
}

// present is how the intent stands, its row locked.
type present struct {
	state      intents.State
	generation int32
	doubt      bool
	duplicates int
	superseded bool
	tookOver   bool // the claim that the evidence speaks of was taken over
}

// testimony decides what the evidence does. What it says is the whole truth only if the claim that was taken over is the last one
// that can have sent anything, and no earlier one is in doubt.
func (p present) testimony(st intents.Settlement) (to intents.State, settles bool) {
	sole := p.tookOver && p.generation == st.Generation+1 && p.duplicates == 0
	to, settles = intents.Testimony(p.state, p.doubt, sole, st.Outcome)
	if settles && to == intents.Pending && p.superseded {
		to = intents.SupersededState
	}
	return to, settles
}

func (p present) settle(ctx context.Context, tx pgx.Tx, st intents.Settlement, to intents.State) error {
	o := st.Outcome
	code, message := clean(o.Code()), clean(o.Message())
	if to == intents.SupersededState {
		code, message = "superseded", "it was not sent, and a newer revision was admitted"
	}
	providerID := ""
	if o.Result() == channels.Accepted {
		providerID = clean(o.ProviderID())
	}
	tag, err := tx.Exec(ctx, settleByEvidenceSQL, st.ID, p.generation, string(p.state), string(to), code, message, providerID, o.DeadRecipient())
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return errors.New("a locked intent changed") // this cannot be
	}
	return note(ctx, tx, []transition{{st.ID, p.generation, p.state, to}},
		cause{name: "evidence", actor: st.Owner, detail: lateFinisher + ": " + o.Result().String(), delay: o.Wait()})
}
