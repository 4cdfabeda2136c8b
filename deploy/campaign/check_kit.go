package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
)

// account is the evidence together with what the service says of itself, sorted for comparing.
type account struct {
	evidence
	intents  []admin.IntentDetail
	refusals []admin.Refusal

	record map[identity]admin.IntentDetail
	calls  map[identity][]effect // in the order in which they came
	tries  map[identity][]told   // poison is not among them
}

// checks are the invariants, each with its name. A check reads the account and nothing else.
var checks = []struct {
	invariant string
	find      func(*account) []string
}{
	{"I1", seenTwice},
	{"I2", untrue},
	{"I3", changedAfterTheEnd},
	{"I4", leftOpen},
	{"I5", lost},
	{"I6", severalMeanings},
	{"I7", withoutIntent},
	{"I8", generationsBack},
	{"I9", callsDiffer},
	{"I10", begunLate},
	{"I11", rememberedWrongly},
	{"I13", repeatedInDoubt},
	{"I14", olderAfterNewer},
	{"I16", leaked},
	{"calls on record", notOnRecord},
	{"answers on record", misread},
	{"no wrong state", wrongState},
	{"every UNKNOWN explained", unexplained},
}

// check compares what was promised with what was done.
func check(ctx context.Context, e evidence) []violation {
	a, err := newAccount(ctx, e)
	if err != nil {
		return []violation{{"the account can be read", err.Error()}}
	}
	var out []violation
	for _, c := range checks {
		found := c.find(a)
		for n, what := range found {
			if n == mostOfOne {
				what = fmt.Sprintf("and %d more", len(found)-n)
			}
			out = append(out, violation{c.invariant, what})
			if n == mostOfOne {
				break
			}
		}
	}
	return out
}

// mostOfOne bounds how many violations of one invariant are listed.
const mostOfOne = 20

func newAccount(ctx context.Context, e evidence) (*account, error) {
	a := &account{evidence: e}
	var err error
	if a.intents, err = readIntents(ctx, e.api); err != nil {
		return nil, err
	}
	if a.refusals, err = readRefusals(ctx, e.api); err != nil {
		return nil, err
	}
	a.sort()
	return a, nil
}

// sort fills in what is derived.
func (a *account) sort() {
	a.record, a.calls, a.tries = map[identity]admin.IntentDetail{}, map[identity][]effect{}, map[identity][]told{}
	addressed := map[string]identity{}
	for _, t := range a.told {
		if t.poison == "" {
			a.tries[t.of] = append(a.tries[t.of], t)
			if other, ok := addressed[t.to]; ok && other != t.of {
				addressed[t.to] = identity{} // the revisions of a push notification have one address
				continue
			}
			addressed[t.to] = t.of
		}
	}
	for _, in := range a.intents {
		a.record[named(in.Intent)] = in
	}
	for i, e := range a.effects {
		if e.of == (identity{}) { // hung up on before it was read: each intent has an address of its own
			if a.effects[i].of = addressed[e.to]; a.effects[i].of == (identity{}) && e.unread {
				continue
			}
		}
		a.calls[a.effects[i].of] = append(a.calls[a.effects[i].of], a.effects[i])
	}
	for _, calls := range a.calls {
		slices.SortStableFunc(calls, func(a, b effect) int { return a.begun.Compare(b.begun) })
	}
}

func named(in admin.Intent) identity { return identity{in.Caller, in.Channel, in.Key, in.Revision} }

func readIntents(ctx context.Context, api *admin.Client) ([]admin.IntentDetail, error) {
	var ids []string
	for q := (admin.Query{Limit: 500}); ; {
		page, err := api.Intents(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, in := range page.Intents {
			ids = append(ids, in.ID)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	var mu sync.Mutex
	out := make([]admin.IntentDetail, 0, len(ids))
	together, ctx := errgroup.WithContext(ctx)
	together.SetLimit(4)
	for _, id := range ids {
		together.Go(func() error {
			d, err := api.Intent(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, d)
			return err
		})
	}
	err := together.Wait()
	slices.SortFunc(out, func(a, b admin.IntentDetail) int { return cmp.Compare(a.ID, b.ID) })
	return out, err
}

func readRefusals(ctx context.Context, api *admin.Client) ([]admin.Refusal, error) {
	var out []admin.Refusal
	for cursor := ""; ; {
		page, err := api.Refusals(ctx, cursor)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Refusals...)
		if cursor = page.NextCursor; cursor == "" {
			return out, nil
		}
	}
}

// summary is what the table says of a round, or of all of them together.
type summary struct {
	intents                      int
	effects                      int // that the providers applied and somebody could see
	keyedTwice, replaceableTwice int // facts that were seen twice, by guarantee
	visibleTwice                 int
	possible                     int // resends that the service itself counted as possible duplicates
	unknown, unexplained         int // intents that ended UNKNOWN; those of them that no fault explains
}

// add sums up rounds.
func (s *summary) add(o summary) {
	s.intents += o.intents
	s.effects += o.effects
	s.keyedTwice += o.keyedTwice
	s.replaceableTwice += o.replaceableTwice
	s.visibleTwice += o.visibleTwice
	s.possible += o.possible
	s.unknown += o.unknown
	s.unexplained += o.unexplained
}

// summarize counts what a round did.
func summarize(ctx context.Context, e evidence) (summary, error) {
	a, err := newAccount(ctx, e)
	if err != nil {
		return summary{}, err
	}
	s := summary{intents: len(a.intents), unexplained: len(unexplained(a))}
	for _, in := range a.intents {
		s.possible += in.PossibleDuplicates
		if in.State == string(intents.UnknownState) {
			s.unknown++
		}
		seen := applied(a.calls[named(in.Intent)])
		s.effects += seen
		switch {
		case seen < 2:
		case in.Guarantee == "keyed":
			s.keyedTwice++
		case in.Guarantee == "replaceable":
			s.replaceableTwice++
		default:
			s.visibleTwice++
		}
	}
	return s, nil
}

// applied counts the calls that a person would see.
func applied(calls []effect) int {
	n := 0
	for _, e := range calls {
		if e.applied {
			n++
		}
	}
	return n
}
