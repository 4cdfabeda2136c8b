package pgstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// offer offers admissions of different facts as new. Those that meet an existing key, or the watermark, stay undecided. A value
// that the database will not take refuses its own admission: the part is halved until it is found, and the rest goes in.
func (s *Store) offer(ctx context.Context, a *admitting, part []int) error {
	err := s.offerPart(ctx, a, part)
	switch {
	case err == nil || !isData(err):
		return err
	case len(part) == 1:
		a.refuse(part[0])
		s.log.ErrorContext(ctx, "the database would not take an admission", "caller", a.asked[part[0]].Identity.Caller,
			"channel", a.asked[part[0]].Identity.Channel, "error", err)
		return nil
	}
	if err := s.offer(ctx, a, part[:len(part)/2]); err != nil {
		return err
	}
	return s.offer(ctx, a, part[len(part)/2:])
}

func (a *admitting) refuse(i int) {
	a.decide(i, intents.Verdict{Kind: intents.Refused, Code: intents.CodeInternal})
	a.known[a.facts[i]] = false // another admission of the fact may still be good
}

func (s *Store) offerPart(ctx context.Context, a *admitting, part []int) error {
	args, err := newAdmitColumns(a, part)
	if err != nil {
		return err
	}
	var admitted []admittedRow
	err = s.do(ctx, "admit", func(ctx context.Context, c *pgx.Conn) error {
		rows, _ := c.Query(ctx, admitSQL, args...)
		var err error
		admitted, err = pgx.CollectRows(rows, scanAdmitted)
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range admitted {
		a.accept(part[r.n-1], r.id, r.claimed, r.now)
	}
	return nil
}

// admittedRow is one row of admit.sql.
type admittedRow struct {
	n       int
	id      uuid.UUID
	claimed bool
	now     time.Time
}

func scanAdmitted(row pgx.CollectableRow) (r admittedRow, err error) {
	err = row.Scan(&r.n, &r.id, &r.claimed, &r.now)
	return r, err
}

// accept notes that an admission became an intent just now.
func (a *admitting) accept(i int, id uuid.UUID, claimed bool, now time.Time) {
	v := intents.Verdict{Kind: intents.Accepted, Intent: id, State: intents.Pending}
	if claimed {
		v.State = intents.Sending
		v.Claim = a.claim(i, id, now, now)
	}
	a.decide(i, v)
}

// claim is the claim that came with an admission.
func (a *admitting) claim(i int, id uuid.UUID, created, claimed time.Time) *intents.Claim {
	adm := &a.asked[i]
	return &intents.Claim{
		ID: id, Generation: 1, Identity: adm.Identity,
		Recipient: adm.Meaning.Recipient, Rendered: adm.Rendered, EffectKey: adm.EffectKey, CollapseKey: adm.CollapseKey,
		Priority: clamp(adm.Priority), ExpiresAt: adm.ExpiresAt, Traceparent: adm.Traceparent, Guarantee: adm.Guarantee,
		CreatedAt: created, DueSince: dueSince(created, adm.NotBefore), FirstUsedAt: created, KeyScope: adm.KeyScope,
		ClaimedAt: claimed, Batch: a.batch.Batch,
	}
}

func dueSince(created, notBefore time.Time) time.Time {
	if notBefore.After(created) {
		return notBefore
	}
	return created
}

func clamp(p intents.Priority) intents.Priority { return max(intents.High, min(p, intents.Low)) }

// newAdmitColumns lays a part out as admit.sql wants it: one array a column.
func newAdmitColumns(a *admitting, part []int) ([]any, error) {
	n := len(part)
	tokens, facts, callers, channelNames, keys := make([]uuid.UUID, n), make([][]byte, n), make([]string, n), make([]string, n), make([]string, n)
	revisions, versions, sums, occurred := make([]int32, n), make([]int16, n), make([][]byte, n), make([]time.Time, n)
	guarantees, effects, collapses, scopes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	hashes, recipients, contents, collapseIDs, rendered := make([][]byte, n), make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	notBefore, expires, priorities := make([]*time.Time, n), make([]*time.Time, n), make([]int16, n)
	labels, traces, claimNow := make([]*string, n), make([]string, n), make([]bool, n)
	for j, i := range part {
		adm := &a.asked[i]
		var err error
		if labels[j], err = labelText(adm.Labels); err != nil {
			return nil, err
		}
		tokens[j], facts[j], callers[j], channelNames[j] = adm.Token, a.facts[i][:], adm.Identity.Caller, adm.Identity.Channel
		keys[j], revisions[j], versions[j], sums[j] = string(adm.Identity.Key), adm.Identity.Revision, int16(adm.Fingerprint.Version), adm.Fingerprint.Sum[:]
		occurred[j], guarantees[j], effects[j], collapses[j] = adm.Meaning.OccurredAt, string(adm.Guarantee), adm.EffectKey, adm.CollapseKey
		scopes[j], hashes[j], recipients[j] = adm.KeyScope, orEmpty(adm.RecipientHash), adm.Meaning.Recipient
		contents[j], collapseIDs[j], rendered[j] = string(adm.Meaning.Content), adm.Meaning.CollapseID, orEmpty(adm.Rendered)
		notBefore[j], expires[j], priorities[j] = orNull(adm.NotBefore), orNull(adm.ExpiresAt), int16(clamp(adm.Priority))
		traces[j], claimNow[j] = adm.Traceparent, adm.ClaimNow
	}
	return []any{
		tokens, facts, callers, channelNames, keys, revisions, versions, sums, occurred, guarantees, effects, collapses, scopes, hashes,
		recipients, contents, collapseIDs, rendered, notBefore, expires, priorities, labels, traces, claimNow,
		a.batch.Batch, a.batch.Owner, a.batch.Lease,
	}, nil
}

func labelText(labels map[string]string) (*string, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(labels)
	if err != nil {
		return nil, err
	}
	text := string(b)
	return &text, nil
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
