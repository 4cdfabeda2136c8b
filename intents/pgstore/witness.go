package pgstore

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// Sources of evidence.
const (
	lateFinisher = "late-finisher" // a claim's own owner, too late to settle
	lookUp       = "look-up"       // the provider, asked
)

// heard is a piece of evidence.
type heard struct {
	source     string
	id         uuid.UUID
	generation int32  // late finisher: of its claim; look-up: of the intent that was asked about
	by         string // an owner
	outcome    channels.Outcome
	hold       bool // it sends nothing again
}

// Witness records the outcome of a claim that is no longer ours as evidence, once, and settles the intent where that is definite.
// See dispatch.Store.
func (s *Store) Witness(ctx context.Context, st intents.Settlement) (intents.Settled, error) {
	return s.hear(ctx, heard{source: lateFinisher, id: st.ID, generation: st.Generation, by: st.Owner, outcome: st.Outcome})
}

func (s *Store) hear(ctx context.Context, h heard) (settled intents.Settled, err error) {
	err = s.doTx(ctx, "witness", func(ctx context.Context, tx pgx.Tx) (err error) {
		settled, err = witness(ctx, tx, h)
		return err
	})
	return settled, err
}

func witness(ctx context.Context, tx pgx.Tx, h heard) (intents.Settled, error) {
	p, before, err := lookAt(ctx, tx, h)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return intents.Settled{ID: h.id, Fenced: true, Missing: true}, nil
	case err != nil:
		return intents.Settled{}, err
	case before != nil && (*before || h.source == lateFinisher):
		return intents.Settled{ID: h.id, State: p.state, Fenced: !*before}, nil
	}
	to, settles := p.testimony(h)
	o := h.outcome
	if before == nil || settles {
		if _, err := tx.Exec(ctx, evidenceSQL, h.id, h.source, h.generation, o.Result().String(), clean(o.Code()), clean(o.Message()),
			clean(o.ProviderID()), settles); err != nil {
			return intents.Settled{}, err
		}
	}
	if settles {
		return intents.Settled{ID: h.id, State: to}, p.settle(ctx, tx, h, to)
	}
	if o.Result() == channels.Accepted && !p.state.Terminal() {
		_, err = tx.Exec(ctx, witnessAcceptedSQL, h.id, p.generation, string(p.state), clean(o.ProviderID()))
	}
	return intents.Settled{ID: h.id, State: p.state, Fenced: true}, err
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
func lookAt(ctx context.Context, tx pgx.Tx, h heard) (p present, before *bool, err error) {
	err = tx.QueryRow(ctx, witnessLockSQL, h.id).Scan(&p.state, &p.generation, &p.doubt, &p.duplicates, &p.superseded, &p.accepted)
	if err != nil {
		return p, nil, err
	}
	err = tx.QueryRow(ctx, witnessKnownSQL, h.id, h.generation, h.by, h.source, h.outcome.Result().String()).Scan(&p.tookOver, &p.unsent, &before)
	return p, before, err
}

// testimony decides what the evidence does. A takeover that is not settled yet is as good as UNKNOWN.
func (p present) testimony(h heard) (to intents.State, settles bool) {
	state := p.state
	if p.unsent {
		state = intents.UnknownState
	}
	to, settles = intents.Testimony(state, p.doubt, p.wholeTruth(h), h.outcome)
	switch {
	case settles && to == intents.Pending && h.hold:
		return "", false
	case settles && to == intents.Pending && p.superseded:
		to = intents.SupersededState
	}
	return to, settles
}

// wholeTruth says that the evidence speaks of everything that is in doubt. A look-up asks for the effect key, which all attempts have, so it
// does unless one was begun since. A late finisher does if the claim that was taken over is the last one that can have sent
// anything, and no earlier one is in doubt.
func (p present) wholeTruth(h heard) bool {
	if p.accepted {
		return false
	}
	if h.source == lookUp {
		return p.state == intents.UnknownState && p.generation == h.generation
	}
	return p.tookOver && p.generation == h.generation+1 && p.duplicates == 0
}

func (p present) settle(ctx context.Context, tx pgx.Tx, h heard, to intents.State) error {
	o := h.outcome
	code, message := clean(o.Code()), clean(o.Message())
	if to == intents.SupersededState {
		code, message = "superseded", "it was not sent, and a newer revision was admitted"
	}
	providerID := ""
	if o.Result() == channels.Accepted {
		providerID = clean(o.ProviderID())
	}
	tag, err := tx.Exec(ctx, settleByEvidenceSQL, h.id, p.generation, string(p.state), string(to), code, message, providerID, o.DeadRecipient())
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return errors.New("a locked intent changed") // this cannot be
	}
	return note(ctx, tx, []transition{{h.id, p.generation, p.state, to}},
		cause{name: "evidence", actor: h.by, detail: h.source + ": " + o.Result().String(), delay: o.Wait()})
}
