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
	p, before, err := lookAt(ctx, tx, st)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return intents.Settled{ID: st.ID, Fenced: true, Missing: true}, nil
	case err != nil:
		return intents.Settled{}, err
	case before != nil:
		return intents.Settled{ID: st.ID, State: p.state, Fenced: !*before}, nil
	}
	to, settles := p.testimony(st)
	o := st.Outcome
	if _, err := tx.Exec(ctx, evidenceSQL, st.ID, lateFinisher, st.Generation, o.Result().String(), clean(o.Code()), clean(o.Message()),
		clean(o.ProviderID()), settles); err != nil {
		return intents.Settled{}, err
	}
	if settles {
		return intents.Settled{ID: st.ID, State: to}, p.settle(ctx, tx, st, to)
	}
	if o.Result() == channels.Accepted && !p.state.Terminal() {
		_, err = tx.Exec(ctx, witnessAcceptedSQL, st.ID, p.generation, string(p.state), clean(o.ProviderID()))
	}
	return intents.Settled{ID: st.ID, State: p.state, Fenced: true}, err
}

// present is how the intent stands, its row locked.
type present struct {
	state      intents.State
	generation int32
	doubt      bool
	duplicates int
	superseded bool
	accepted   bool // as evidence said before
	tookOver   bool // the claim that the evidence speaks of was taken over
	unsent     bool // SENDING by a takeover, which sends nothing
}

// lookAt locks an intent and returns how it stands; before says what became of the same evidence when it was heard already.
func lookAt(ctx context.Context, tx pgx.Tx, st intents.Settlement) (p present, before *bool, err error) {
	err = tx.QueryRow(ctx, witnessLockSQL, st.ID).Scan(&p.state, &p.generation, &p.doubt, &p.duplicates, &p.superseded, &p.accepted)
	if err != nil {
		return p, nil, err
	}
	err = tx.QueryRow(ctx, witnessKnownSQL, st.ID, st.Generation, st.Owner).Scan(&p.tookOver, &p.unsent, &before)
	return p, before, err
}

// testimony decides what the evidence does. What it says is the whole truth only if the claim that was taken over is the last one
// that can have sent anything, and no earlier one is in doubt. A takeover that is not settled yet is as good as UNKNOWN.
func (p present) testimony(st intents.Settlement) (to intents.State, settles bool) {
	state := p.state
	if p.unsent {
		state = intents.UnknownState
	}
	sole := p.tookOver && p.generation == st.Generation+1 && p.duplicates == 0 && !p.accepted
	to, settles = intents.Testimony(state, p.doubt, sole, st.Outcome)
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
