package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// mute is a store that cannot be reached.
type mute struct{ Store }

func (mute) FindByIdentity(context.Context, dedup.Identity) (intents.Intent, bool, error) {
	return intents.Intent{}, false, errors.New("no connection")
}

func TestOutageHoldsABatchOfLateRequestsUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &intake{store: mute{}, writes: t.Context(), report: func(string, error) {}}
		batch := make([]*entry, admitBatch)
		for n := range batch {
			batch[n] = &entry{late: n%2 == 0}
		}
		began := time.Now()
		in.judgeLate(t.Context(), batch, streamPatience)
		if took := time.Since(began); took > streamPatience {
			t.Errorf("the batch was held for %v, want at most %v", took, streamPatience)
		}
		for n, e := range batch {
			if (e.err != nil) != e.late || e.refusal != nil {
				t.Fatalf("request %d: error %v, refusal %v; want those that are late to come again", n, e.err, e.refusal)
			}
		}
	})
}
