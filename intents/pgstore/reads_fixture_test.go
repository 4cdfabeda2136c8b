package pgstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

// ledger makes rows for the reads the way dispatch does, and reads them.
type ledger struct {
	*pgstore.Store
	t   *testing.T
	ctx context.Context
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	store, err := pgstore.Open(t.Context(), pgtest.New(t), pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return ledger{Store: store, t: t, ctx: t.Context()}
}

func hashOf(recipient string) []byte {
	h := sha256.Sum256([]byte(recipient))
	return h[:]
}

// asked is an admission of that identity.
func asked(t *testing.T, id dedup.Identity, recipient string, change ...func(*intents.Admission)) intents.Admission {
	t.Helper()
	content, err := json.Marshal(map[string]string{"text": fmt.Sprint("revision ", id.Revision)})
	if err != nil {
		t.Fatal(err)
	}
	meaning, err := dedup.NewMeaning(recipient, content, "", time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	a := intents.Admission{
		Token: uuid.Must(uuid.NewV7()), Identity: id, Meaning: meaning, Fingerprint: meaning.Fingerprint(),
		Guarantee: channels.DuplicateVisible, EffectKey: "effect-" + string(id.Key), RecipientHash: hashOf(recipient),
		Rendered: []byte("rendered"), Priority: intents.Normal,
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

// admit admits one request and returns its intent's id.
func (l ledger) admit(a intents.Admission) uuid.UUID {
	l.t.Helper()
	verdicts, err := l.Admit(l.ctx, intents.AdmitBatch{Admissions: []intents.Admission{a}, Batch: uuid.Must(uuid.NewV7()), Owner: "worker-1", Lease: time.Minute})
	if err != nil {
		l.t.Fatal(err)
	}
	if verdicts[0].Kind != intents.Accepted {
		l.t.Fatalf("%v: %s %v", a.Identity, verdicts[0].Kind, verdicts[0].Fields)
	}
	return verdicts[0].Intent
}

func (l ledger) simple(caller, channel, key string) uuid.UUID {
	l.t.Helper()
	return l.admit(asked(l.t, dedup.Identity{Caller: caller, Channel: channel, Key: dedup.Key(key)}, "ada@example.org"))
}

// claim claims what is due on a channel, up to n.
func (l ledger) claim(channel string, n int) []intents.Claim {
	l.t.Helper()
	claims, err := l.Claim(l.ctx, intents.ClaimRequest{Channel: channel, Owner: "worker-1", Lease: time.Minute, N: n, Token: uuid.Must(uuid.NewV7())})
	if err != nil {
		l.t.Fatal(err)
	}
	return claims
}

// settle ends a claim with a transition.
func (l ledger) settle(c intents.Claim, o channels.Outcome, tr intents.Transition) {
	l.t.Helper()
	results, err := l.Settle(l.ctx, []intents.Settlement{{ID: c.ID, Generation: c.Generation, Owner: "worker-1", Transition: tr, Outcome: o, Took: time.Second}}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	if results[0].Fenced {
		l.t.Fatalf("settling %s was fenced: %+v", c.ID, results[0])
	}
}

// sent admits a request on a channel of its own, sends it, and ends it with an outcome.
func (l ledger) sent(id dedup.Identity, o channels.Outcome, end func(channels.Outcome) intents.Transition) uuid.UUID {
	l.t.Helper()
	intent := l.admit(asked(l.t, id, "ada@example.org"))
	claims := l.claim(id.Channel, 1)
	if len(claims) != 1 || claims[0].ID != intent {
		l.t.Fatalf("claimed %v, want %s", claims, intent)
	}
	l.settle(claims[0], o, end(o))
	return intent
}

// list returns the ids of one page.
func (l ledger) list(f intents.Filter) (ids []uuid.UUID, next uuid.UUID) {
	l.t.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	page, err := l.ListIntents(l.ctx, f)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, i := range page.Intents {
		ids = append(ids, i.ID)
	}
	return ids, page.Next
}
