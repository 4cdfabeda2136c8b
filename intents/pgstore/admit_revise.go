package pgstore

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// revise admits a newer revision of a known fact, in a transaction that ends or marks the older ones. The admission stays
// undecided when the fact changed in the meantime.
func (s *Store) revise(ctx context.Context, a *admitting, i int) error {
	labels, err := labelText(a.asked[i].Labels)
	if err != nil {
		return err
	}
	var v *intents.Verdict
	err = s.doTx(ctx, "admit a revision", func(ctx context.Context, tx pgx.Tx) (err error) {
		v, err = a.reviseIn(ctx, tx, i, labels)
		return err
	})
	switch {
	case err != nil && isData(err):
		a.refuse(i)
		s.log.ErrorContext(ctx, "the database would not take an admission", "caller", a.asked[i].Identity.Caller,
			"channel", a.asked[i].Identity.Channel, "error", err)
		return nil
	case err == nil && v != nil:
		a.decide(i, *v)
	}
	return err
}

func (a *admitting) reviseIn(ctx context.Context, tx pgx.Tx, i int, labels *string) (*intents.Verdict, error) {
	adm, fact := &a.asked[i], a.facts[i][:]
	var stale bool
	if err := tx.QueryRow(ctx, watermarkShareSQL, adm.Meaning.OccurredAt).Scan(&stale); err != nil {
		return nil, err
	}
	if stale {
		return &intents.Verdict{Kind: intents.Stale}, nil
	}
	var newest int32
	err := tx.QueryRow(ctx, keyLockSQL, fact).Scan(&newest)
	if errors.Is(err, pgx.ErrNoRows) {
		a.known[a.facts[i]] = false // purged meanwhile
		return nil, nil
	}
	if err != nil || newest >= adm.Identity.Revision {
		return nil, err
	}
	var id uuid.UUID
	err = tx.QueryRow(ctx, reviseSQL, adm.Token, fact, adm.Identity.Caller, adm.Identity.Channel, string(adm.Identity.Key), adm.Identity.Revision,
		int16(adm.Fingerprint.Version), adm.Fingerprint.Sum[:], adm.Meaning.OccurredAt, string(adm.Guarantee), adm.EffectKey, adm.CollapseKey,
		orEmpty(adm.RecipientHash), adm.Meaning.Recipient, string(adm.Meaning.Content), adm.Meaning.CollapseID, orEmpty(adm.Rendered),
		orNull(adm.NotBefore), orNull(adm.ExpiresAt), int16(clamp(adm.Priority)), labels, adm.Traceparent, adm.KeyScope).Scan(&id)
	if err != nil {
		return nil, err
	}
	if err := supersede(ctx, tx, a.facts[i][:], id); err != nil {
		return nil, err
	}
	fault.At(fault.ReviseOpen)
	return &intents.Verdict{Kind: intents.Accepted, Intent: id, State: intents.Pending}, nil
}

// supersede ends or marks every older revision of the fact that nothing superseded before.
func supersede(ctx context.Context, tx pgx.Tx, fact []byte, by uuid.UUID) error {
	rows, _ := tx.Query(ctx, olderLockSQL, fact)
	older, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	rows, _ = tx.Query(ctx, supersedeSQL, by, older)
	marked, err := pgx.CollectRows(rows, scanTransition)
	if err != nil {
		return err
	}
	if len(marked) != len(older) {
		return errors.New("a locked intent changed") // this cannot be
	}
	var ended []transition
	for _, m := range marked {
		if m.from != m.to {
			ended = append(ended, m)
		}
	}
	return note(ctx, tx, ended, cause{name: "superseded", detail: "by " + by.String()})
}
