package pgstore

import (
	"context"
	"errors"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// errUndecided ends an admission that found a fact neither new nor remembered, round after round.
var errUndecided = errors.New("a fact could not be decided; is the watermark's row missing?")

// Admit decides all admissions of a batch, in order. See dispatch.Store.
//
// Each round offers the first undecided admission of every fact that is not known to exist, answers what met an existing key from
// a second, younger snapshot, and takes newer revisions in one by one. A fact that vanished between two statements, or whose newest
// revision changed, goes into the next round.
func (s *Store) Admit(ctx context.Context, batch intents.AdmitBatch) ([]intents.Verdict, error) {
	a := newAdmitting(batch)
	for round := 0; len(a.todo) > 0; round++ {
		if round > len(batch.Admissions)+10 {
			return nil, &storeError{"admit", errUndecided}
		}
		for _, part := range a.offers() {
			if err := s.offer(ctx, a, part); err != nil {
				return nil, err
			}
		}
		a.sift()
		if err := s.answerKnown(ctx, a); err != nil {
			return nil, err
		}
		a.sift()
	}
	if err := s.renewClaims(ctx, a); err != nil {
		return nil, err
	}
	a.answerTwins()
	return a.verdicts, nil
}

// admitting is a batch on its way to verdicts. Indexes are those of batch.Admissions.
type admitting struct {
	batch    intents.AdmitBatch
	asked    []intents.Admission // instants cut to what the database keeps
	facts    []dedup.Fact
	verdicts []intents.Verdict
	decided  []bool
	todo     []int               // undecided, in order
	known    map[dedup.Fact]bool // a key stands, as far as we know: no use in offering
	twins    map[int]int         // an admission that says exactly what an earlier one of the batch says
	renew    []int               // admitted and claimed by an earlier try
}

func newAdmitting(batch intents.AdmitBatch) *admitting {
	n := len(batch.Admissions)
	a := &admitting{
		batch: batch, asked: make([]intents.Admission, n), facts: make([]dedup.Fact, n), verdicts: make([]intents.Verdict, n),
		decided: make([]bool, n), todo: make([]int, 0, n), known: make(map[dedup.Fact]bool, n), twins: map[int]int{},
	}
	type saying struct {
		fact        dedup.Fact
		revision    int32
		fingerprint dedup.Fingerprint
	}
	first := make(map[saying]int, n)
	for i, adm := range batch.Admissions {
		adm.Meaning.OccurredAt = dedup.Instant(adm.Meaning.OccurredAt)
		adm.NotBefore, adm.ExpiresAt = dedup.Instant(adm.NotBefore), dedup.Instant(adm.ExpiresAt)
		a.asked[i], a.facts[i] = adm, adm.Identity.Fact()
		said := saying{a.facts[i], adm.Identity.Revision, adm.Fingerprint}
		if j, ok := first[said]; ok {
			a.twins[i] = j
			continue
		}
		first[said] = i
		a.todo = append(a.todo, i)
	}
	return a
}

func (a *admitting) decide(i int, v intents.Verdict) { a.verdicts[i], a.decided[i] = v, true }

// sift drops the decided ones from todo.
func (a *admitting) sift() {
	left := a.todo[:0]
	for _, i := range a.todo {
		if !a.decided[i] {
			left = append(left, i)
		}
	}
	a.todo = left
}

// maxPart and maxPartBytes bound one statement.
const (
	maxPart      = 1000
	maxPartBytes = 16 << 20
)

// offers returns the first undecided admission of every fact that may be new, in parts that one statement can carry.
func (a *admitting) offers() [][]int {
	var parts [][]int
	var part []int
	size := 0
	for _, i := range a.todo {
		if a.known[a.facts[i]] {
			continue
		}
		a.known[a.facts[i]] = true // whatever comes of it: admitted, or met an existing key
		bytes := len(a.asked[i].Rendered) + len(a.asked[i].Meaning.Content)
		if len(part) > 0 && (len(part) == maxPart || size+bytes > maxPartBytes) {
			parts, part, size = append(parts, part), nil, 0
		}
		part, size = append(part, i), size+bytes
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// answerTwins answers repeats within the batch from the first of their kind.
func (a *admitting) answerTwins() {
	for i, first := range a.twins {
		v := a.verdicts[first]
		v.Claim = nil
		if v.Kind == intents.Accepted {
			v.Kind = intents.Duplicate
		}
		a.verdicts[i] = v
	}
}
