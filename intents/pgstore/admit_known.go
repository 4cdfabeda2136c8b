package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// knownFact is one row of known_facts.sql: what is remembered of an admission's fact. The pointers are nil where nothing is.
type knownFact struct {
	n         int
	watermark watermark

	newest      *int32
	newestID    *uuid.UUID
	newestState *string // where it is newer than the one asked for

	// The same identity.
	id         *uuid.UUID
	version    *int16
	sum        []byte
	occurredAt *time.Time
	state      *string
	generation *int32
	owner      *string
	live       *bool

	// Its content, where the meaning differs and it is not forgotten.
	recipient, content, collapseID *string
}

// answerKnown answers the undecided from what is remembered, and takes newer revisions in.
func (s *Store) answerKnown(ctx context.Context, a *admitting) error {
	facts, err := s.knownFacts(ctx, a)
	if err != nil {
		return err
	}
	revised := map[dedup.Fact]bool{}
	for j := range facts {
		k := &facts[j]
		i := a.todo[k.n-1]
		if revised[a.facts[i]] {
			continue // what was read of it is old: the next round
		}
		switch {
		case k.id != nil:
			a.answerSame(i, k)
		case k.newest != nil && *k.newest > a.asked[i].Identity.Revision:
			a.decide(i, intents.Verdict{Kind: intents.Superseded, Intent: *k.newestID, State: stateOf(k.newestState), Newer: *k.newest})
		case !k.watermark.before(a.asked[i].Meaning.OccurredAt):
			a.decide(i, intents.Verdict{Kind: intents.Stale})
		case k.newest == nil:
			a.known[a.facts[i]] = false
		default:
			revised[a.facts[i]] = true
			if err := s.revise(ctx, a, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) knownFacts(ctx context.Context, a *admitting) ([]knownFact, error) {
	n := len(a.todo)
	if n == 0 {
		return nil, nil
	}
	facts, revisions, versions, sums := make([][]byte, n), make([]int32, n), make([]int16, n), make([][]byte, n)
	for j, i := range a.todo {
		f := &a.asked[i].Fingerprint
		facts[j], revisions[j], versions[j], sums[j] = a.facts[i][:], a.asked[i].Identity.Revision, int16(f.Version), f.Sum[:]
	}
	var out []knownFact
	err := s.do(ctx, "read known facts", func(ctx context.Context, c *pgx.Conn) error {
		rows, _ := c.Query(ctx, knownFactsSQL, facts, revisions, versions, sums)
		var err error
		out, err = pgx.CollectRows(rows, scanKnownFact)
		return err
	})
	return out, err
}

func scanKnownFact(row pgx.CollectableRow) (k knownFact, err error) {
	err = row.Scan(&k.n, &k.watermark, &k.newest, &k.newestID, &k.newestState, &k.id, &k.version, &k.sum, &k.occurredAt,
		&k.state, &k.generation, &k.owner, &k.live, &k.recipient, &k.content, &k.collapseID)
	return k, err
}

// answerSame answers an admission whose identity is remembered.
func (a *admitting) answerSame(i int, k *knownFact) {
	adm := &a.asked[i]
	v := intents.Verdict{Kind: intents.Duplicate, Intent: *k.id, State: stateOf(k.state)}
	if mine := [10]byte(k.id[6:]); mine == [10]byte(adm.Token[6:]) {
		v.Kind = intents.Accepted // an earlier try of this very call, whose reply was lost
		if v.State == intents.Sending && *k.generation == 1 && *k.owner == a.batch.Owner && k.live != nil && *k.live {
			a.renew = append(a.renew, i)
		}
	} else if fields, same := compare(adm, k); !same {
		v.Kind, v.Fields = intents.Conflict, fields
	}
	a.decide(i, v)
}

// compare says whether an admission means what is remembered, and if not, which members differ, as far as that is still known.
// Digests of different versions say nothing of each other; then the members themselves are compared.
func compare(adm *intents.Admission, k *knownFact) (fields []string, same bool) {
	sameVersion := int16(adm.Fingerprint.Version) == *k.version
	if sameVersion && [32]byte(k.sum) == adm.Fingerprint.Sum {
		return nil, true
	}
	stored := dedup.Meaning{OccurredAt: *k.occurredAt}
	if k.content == nil { // forgotten: compare what the key remembers
		asked := dedup.Meaning{OccurredAt: adm.Meaning.OccurredAt}
		fields = dedup.ChangedFields(stored, asked)
		return fields, !sameVersion && len(fields) == 0
	}
	stored.Recipient, stored.Content, stored.CollapseID = *k.recipient, []byte(*k.content), *k.collapseID
	fields = dedup.ChangedFields(stored, adm.Meaning)
	return fields, len(fields) == 0
}

// renewClaims gives claims again that an earlier try of this call made.
func (s *Store) renewClaims(ctx context.Context, a *admitting) error {
	if len(a.renew) == 0 {
		return nil
	}
	index := make(map[uuid.UUID]int, len(a.renew))
	ids := make([]uuid.UUID, 0, len(a.renew))
	for _, i := range a.renew {
		index[a.verdicts[i].Intent] = i
		ids = append(ids, a.verdicts[i].Intent)
	}
	var renewed []renewedRow
	err := s.do(ctx, "renew claims", func(ctx context.Context, c *pgx.Conn) error {
		rows, _ := c.Query(ctx, renewAdmittedSQL, ids, a.batch.Owner, a.batch.Lease, a.batch.Batch)
		var err error
		renewed, err = pgx.CollectRows(rows, scanRenewed)
		return err
	})
	for _, r := range renewed {
		claim := a.claim(index[r.id], r.id, r.created, r.claimed)
		claim.FirstUsedAt = r.used
		a.verdicts[index[r.id]].Claim = claim
	}
	return err
}

// renewedRow is one row of renew_admitted.sql.
type renewedRow struct {
	id                     uuid.UUID
	created, claimed, used time.Time
}

func scanRenewed(row pgx.CollectableRow) (r renewedRow, err error) {
	err = row.Scan(&r.id, &r.created, &r.claimed, &r.used)
	return r, err
}

func stateOf(s *string) intents.State {
	if s == nil {
		return ""
	}
	return intents.State(*s)
}
