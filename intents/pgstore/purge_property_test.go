package pgstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onebell/onebell/intents"
)

// settledFact is what a purge meets: the revisions of one fact.
type settledFact []settledRevision

type settledRevision struct {
	occurred, ended time.Duration // ago
	state           intents.State
}

var hours = []time.Duration{time.Hour, 30 * time.Hour, 60 * time.Hour, 90 * time.Hour, 120 * time.Hour, 150 * time.Hour}

func drawFact(t *rapid.T) (f settledFact) {
	states := append(intents.States(), "held-by-a-later-version")
	for range rapid.IntRange(1, 3).Draw(t, "revisions") {
		r := settledRevision{rapid.SampledFrom(hours).Draw(t, "occurred"), rapid.SampledFrom(hours).Draw(t, "ended"), intents.Succeeded}
		if rapid.IntRange(0, 2).Draw(t, "how") == 0 {
			r.state = rapid.SampledFrom(states).Draw(t, "state")
		}
		f = append(f, r)
	}
	return f
}

// forgettable says, in the plainest way, whether the keys of a fact may go.
func (f settledFact) forgettable(keep, watermark time.Duration) bool {
	return !slices.ContainsFunc(f, func(r settledRevision) bool {
		return !r.state.Terminal() || r.occurred < keep || r.occurred < watermark
	})
}

// I12: whatever there is and whatever the windows are, a purge deletes what may go, all of it, and nothing else.
func TestPurgeDeletesWhatMayGoAndNothingElse(t *testing.T) {
	b := newBench(t)
	windows := []time.Duration{20 * time.Hour, 45 * time.Hour, 75 * time.Hour, 105 * time.Hour, 135 * time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		b.exec(`truncate keys, keys_older, intents, contents, agenda, claim_batches, attempts, changes, evidence, outbox`)
		b.exec(`update watermark set acked_to = '-infinity'`)
		facts := rapid.SliceOfN(rapid.Custom(drawFact), 1, 5).Draw(t, "facts")
		for i, f := range facts {
			for r, rev := range f {
				b.admit(ask(fmt.Sprintf("p:%d", i), int32(r), ago(rev.occurred)))
			}
		}
		b.age(200 * time.Hour)
		for i, f := range facts {
			for r, rev := range f {
				b.exec(`update intents set state = $3, updated_at = now() - $4::interval where key = $1 and revision = $2`, fmt.Sprintf("p:%d", i), r, string(rev.state), rev.ended)
			}
		}
		pick := func(what string) time.Duration { return rapid.SampledFrom(windows).Draw(t, what) }
		watermark, keys, contents, records, size := pick("watermark"), pick("keys"), pick("contents"), pick("intents"), rapid.IntRange(1, 4).Draw(t, "page")
		if rapid.IntRange(0, 4).Draw(t, "move") == 0 {
			watermark = 1000 * time.Hour // as good as never moved
		}
		b.move(watermark)
		b.forget(intents.PurgeKeys, keys, size)
		b.forget(intents.PurgeContents, contents, size)
		b.forget(intents.PurgeIntents, records, size)
		var want []string
		for i, f := range facts {
			gone := f.forgettable(keys, watermark)
			for r, rev := range f {
				over := rev.state.Terminal()
				intent := !(gone && over && rev.ended >= records)
				want = append(want, fmt.Sprintf("p:%d/%d key %v content %v intent %v", i, r, !gone, intent && !(over && rev.ended >= contents), intent))
			}
		}
		if got := b.left(facts); !slices.Equal(got, want) {
			t.Fatalf("watermark %v, keys %v, contents %v, intents %v:\n got %v\nwant %v", watermark, keys, contents, records, got, want)
		}
	})
}

// left says of every revision what there is of it.
func (b *bench) left(facts []settledFact) (out []string) {
	b.t.Helper()
	for i, f := range facts {
		for r := range f {
			id := ask(fmt.Sprintf("p:%d", i), int32(r)).Identity
			fact := id.Fact()
			var key, content, intent bool
			err := b.db.QueryRow(b.ctx, `select exists (select from keys where fact = $1 and revision = $2) or exists (select from keys_older where fact = $1 and revision = $2),
				exists (select from contents c join intents i on i.id = c.intent_id where i.fact = $1 and i.revision = $2),
				exists (select from intents where fact = $1 and revision = $2)`, fact[:], r).Scan(&key, &content, &intent)
			if err != nil {
				b.t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s/%d key %v content %v intent %v", id.Key, r, key, content, intent))
		}
	}
	return out
}
