package pgstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// TestStoreFollowsTheModel walks at random through everything that can happen to a few intents, and compares the store with the
// model after each step.
func TestStoreFollowsTheModel(t *testing.T) {
	b := newBench(t)
	rapid.Check(t, func(t *rapid.T) {
		b.exec(`truncate keys, keys_older, intents, contents, agenda, claim_batches, attempts, changes, evidence, outbox`)
		m := &machine{b: b}
		t.Repeat(map[string]func(*rapid.T){
			"admit": m.admit, "again": m.again, "claim": m.claim, "settle": m.settle, "settle2": m.settle, "pass": m.pass,
			"takeover": m.takeOver, "witness": m.witness, "cancel": m.cancel, "sweep": m.sweep, "": m.check,
		})
	})
}

type machine struct {
	b      *bench
	model  intenttest.Model
	claims []held
	// The last batch, and what was said of it.
	batch    intents.AdmitBatch
	verdicts []intents.Verdict
	// The last wish, and what it got.
	wish    intents.ClaimRequest
	granted []intents.Claim
}

// held is a claim that somebody has, or believes to have.
type held struct {
	claim intents.Claim
	owner string
	heard bool
}

func (m *machine) of(t *rapid.T, id uuid.UUID) *intenttest.Modelled {
	for _, i := range m.model.Intents {
		if i.ID == id {
			return i
		}
	}
	t.Fatalf("the model has no intent %v", id)
	return nil
}

func owners(t *rapid.T) string { return rapid.SampledFrom([]string{me, them}).Draw(t, "owner") }

func (m *machine) admit(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "n")
	var as []intents.Admission
	var lives []time.Duration
	for range n {
		life := rapid.SampledFrom([]time.Duration{0, 0, 90 * time.Minute}).Draw(t, "life")
		how := []func(*intents.Admission){
			text(rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "text")),
			intenttest.Urgency(intents.Priority(rapid.IntRange(0, 2).Draw(t, "priority"))),
		}
		if life > 0 {
			how = append(how, intenttest.ExpiresIn(life))
		}
		if rapid.Bool().Draw(t, "now") {
			how = append(how, now)
		}
		as = append(as, ask(fmt.Sprintf("k:%d", rapid.IntRange(1, 3).Draw(t, "key")), int32(rapid.IntRange(0, 3).Draw(t, "revision")), how...))
		lives = append(lives, life)
	}
	m.batch = batchOf(as...)
	m.verdicts = m.b.admitBatch(m.batch)
	for i, v := range m.verdicts {
		want := m.model.Admit(as[i], lives[i], v.Intent)
		if v.Kind != want {
			t.Fatalf("admission %d: %+v, want %s", i, v, want)
		}
		if v.Kind == intents.Conflict && !slices.Equal(v.Fields, []string{"content"}) {
			t.Fatalf("admission %d: the conflict names %v", i, v.Fields)
		}
		if v.Claim != nil {
			m.claims = append(m.claims, held{claim: *v.Claim, owner: me})
		}
	}
}

// again repeats the last admission, as after a lost reply.
func (m *machine) again(t *rapid.T) {
	if len(m.verdicts) == 0 {
		t.Skip()
	}
	for i, v := range m.b.admitBatch(m.batch) {
		if v.Kind != m.verdicts[i].Kind || v.Kind == intents.Accepted && v.Intent != m.verdicts[i].Intent {
			t.Fatalf("admission %d: again %+v, at first %+v", i, v, m.verdicts[i])
		}
		if v.Kind != intents.Accepted {
			continue
		}
		in := m.of(t, v.Intent)
		mine := in.State == intents.Sending && in.Generation == 1 && in.Owner == me && in.Lease > m.model.Now && m.claimedAtAdmission(v.Intent)
		if mine != (v.Claim != nil) {
			t.Fatalf("admission %d: again %+v, the model has %+v", i, v, in)
		}
		if mine {
			in.Lease = m.model.Now + intenttest.Lease
		}
	}
}

func (m *machine) claimedAtAdmission(id uuid.UUID) bool {
	return slices.ContainsFunc(m.verdicts, func(v intents.Verdict) bool { return v.Intent == id && v.Claim != nil })
}

func (m *machine) claim(t *rapid.T) {
	if len(m.granted) > 0 && rapid.IntRange(0, 3).Draw(t, "same wish") == 0 {
		m.claimAgain(t)
		return
	}
	m.wish = wish("mail", owners(t), rapid.IntRange(1, 3).Draw(t, "n"))
	able := m.model.Claimable()
	cs, err := m.b.Claim(m.b.ctx, m.wish)
	if err != nil || len(cs) != min(m.wish.N, len(able)) {
		t.Fatalf("%d of %d claimable claimed, wanted %d, %v", len(cs), len(able), m.wish.N, err)
	}
	urgent := intents.Low
	for _, c := range cs {
		in := m.of(t, c.ID)
		if !slices.Contains(able, in) || c.Generation != in.Generation+1 || c.Doubt != in.Doubt || c.Attempts != in.Attempts || c.Takeovers != in.Takeovers {
			t.Fatalf("claimed %+v of %+v", c, in)
		}
		urgent = c.Priority // the last one's: the least urgent
		m.model.Claim(in, m.wish.Owner)
		m.claims = append(m.claims, held{claim: c, owner: m.wish.Owner})
	}
	for _, in := range able {
		if len(cs) > 0 && in.State != intents.Sending && in.Priority < urgent {
			t.Fatalf("%+v was passed over", in)
		}
	}
	m.granted = cs
}

// claimAgain repeats the last wish: what it got and still has is all that it gets. With nothing left it would be a new wish.
func (m *machine) claimAgain(t *rapid.T) {
	var still []uuid.UUID
	for _, c := range m.granted {
		if in := m.of(t, c.ID); in.State == intents.Sending && in.Generation == c.Generation && in.Lease > m.model.Now {
			still = append(still, c.ID)
			in.Lease = m.model.Now + intenttest.Lease
		}
	}
	if len(still) == 0 {
		t.Skip()
	}
	cs, err := m.b.Claim(m.b.ctx, m.wish)
	if err != nil || len(cs) != len(still) {
		t.Fatalf("the same wish got %d, and had %d, %v", len(cs), len(still), err)
	}
	for _, c := range cs {
		if !slices.Contains(still, c.ID) {
			t.Fatalf("the same wish got %+v", c)
		}
	}
}

func (m *machine) settle(t *rapid.T) {
	if len(m.claims) == 0 {
		t.Skip()
	}
	h := rapid.SampledFrom(m.claims).Draw(t, "claim")
	delay := rapid.SampledFrom([]time.Duration{0, 45 * time.Minute}).Draw(t, "delay")
	st := rapid.SampledFrom([]intents.Settlement{
		succeeded(h.claim, h.owner), intenttest.Rejected(h.claim, h.owner), notSent(h.claim, h.owner, delay), resent(h.claim, h.owner),
		parked(h.claim, h.owner), handBack(h.claim, h.owner), intenttest.Exhausted(h.claim, h.owner),
	}).Draw(t, "settlement")
	in := m.of(t, st.ID)
	if in.TakenOver && in.Generation == st.Generation {
		st = leaseOver(h.claim, h.owner, rapid.Bool().Draw(t, "park"))
	}
	// One that was settled before is answered as it was written then; that has a test of its own.
	if !m.open(h) {
		t.Skip()
	}
	fenced := m.model.Settle(in, st)
	got := m.b.settle(st)[0]
	if got.Fenced != fenced || got.State != in.State {
		t.Fatalf("%s answered %+v, want fenced %v, %s", st.Transition.To(), got, fenced, in.State)
	}
}

// open says that nothing was written for the claim by its owner.
func (m *machine) open(h held) bool {
	n := one[int](m.b, `select (select count(*) from attempts where intent_id = $1 and generation = $2 and state <> 'sending')
		+ (select count(*) from changes where intent_id = $1 and generation = $2 and from_state = 'sending' and to_state <> 'sending' and cause <> 'evidence')`,
		h.claim.ID, h.claim.Generation)
	return n == 0
}

func (m *machine) pass(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour}).Draw(t, "time")
	m.b.pass(d)
	m.model.Now += d
}

func (m *machine) takeOver(t *rapid.T) {
	owner := owners(t)
	unsettled, over := m.model.Unsettled(owner), m.model.Over()
	cs := m.b.takeOver(owner)
	if len(cs) != len(over)+len(unsettled) {
		t.Fatalf("%d taken over, %d are over and %d unsettled", len(cs), len(over), len(unsettled))
	}
	for _, c := range cs {
		in := m.of(t, c.ID)
		if slices.Contains(over, in) {
			m.model.TakeOver(in, owner)
			m.claims = append(m.claims, held{claim: c, owner: owner})
		} else if !slices.Contains(unsettled, in) {
			t.Fatalf("taken over %+v of %+v", c, in)
		}
		if c.Generation != in.Generation || !c.Doubt || c.Takeovers != in.Takeovers {
			t.Fatalf("taken over %+v, want %+v", c, in)
		}
	}
}

func (m *machine) witness(t *rapid.T) {
	var late []int
	for n, h := range m.claims {
		if in := m.of(t, h.claim.ID); !h.heard && in.Generation > h.claim.Generation && m.open(h) {
			late = append(late, n)
		}
	}
	if len(late) == 0 {
		t.Skip()
	}
	h := &m.claims[rapid.SampledFrom(late).Draw(t, "late")]
	h.heard = true
	o := rapid.SampledFrom([]channels.Outcome{
		channels.OutcomeAccepted("p", "250", ""), channels.OutcomeRefused("550", ""),
		channels.OutcomeNotSent(channels.PhaseConnect, "dial", ""), channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", ""),
	}).Draw(t, "outcome")
	st := intents.Settlement{ID: h.claim.ID, Generation: h.claim.Generation, Owner: h.owner, Outcome: o}
	in := m.of(t, st.ID)
	fenced := m.model.Witness(in, st)
	got, err := m.b.Witness(m.b.ctx, st)
	if err != nil || got.Fenced != fenced || got.State != in.State {
		t.Fatalf("answered %+v %v, want fenced %v, %s", got, err, fenced, in.State)
	}
}

func (m *machine) cancel(t *rapid.T) {
	if len(m.model.Intents) == 0 {
		t.Skip()
	}
	in := rapid.SampledFrom(m.model.Intents).Draw(t, "intent")
	want := m.model.Cancel(in)
	got, found, cancelled, err := m.b.Cancel(m.b.ctx, ask(string(in.Key), in.Revision).Identity, "shop")
	if err != nil || !found || cancelled != want || got.State != in.State {
		t.Fatalf("cancelled %v (%s), want %v (%s), %v", cancelled, got.State, want, in.State, err)
	}
}

func (m *machine) sweep(t *rapid.T) {
	want := m.model.Sweep()
	if got, err := m.b.Sweep(m.b.ctx, 100); err != nil || got != want {
		t.Fatalf("swept %d, want %d, %v", got, want, err)
	}
}

// check compares what is stored with the model, and looks at the invariants.
func (m *machine) check(t *rapid.T) {
	type row struct {
		ID                              uuid.UUID
		State                           intents.State
		Generation                      int32
		Doubt, Superseded               bool
		Attempts, Takeovers, Duplicates int
		Tried, Lost                     int
	}
	rows, _ := m.b.db.Query(m.b.ctx, `select id, state, generation, doubt, superseded_by is not null, attempts, takeovers, possible_duplicates,
		(select count(*) from attempts t where t.intent_id = i.id and t.state <> 'sending'),
		(select count(*) from attempts t where t.intent_id = i.id and t.state = 'sending') from intents i`)
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil || len(stored) != len(m.model.Intents) {
		t.Fatalf("%d intents stored, want %d, %v", len(stored), len(m.model.Intents), err)
	}
	for _, got := range stored {
		in := m.of(t, got.ID)
		want := row{in.ID, in.State, in.Generation, in.Doubt, in.Superseded, in.Attempts, in.Takeovers, in.Duplicates, in.Tried, in.Lost}
		if got != want {
			t.Fatalf("%s revision %d: stored %+v, want %+v", in.Key, in.Revision, got, want)
		}
	}
	rows, _ = m.b.db.Query(m.b.ctx, `select e.key || '/' || e.revision || '/' || e.generation || '/' || e.what
		from outbox o cross join unnest(o.keys, o.revisions, o.generations, o.whats) as e (key, revision, generation, what)`)
	events, err := pgx.CollectRows(rows, pgx.RowTo[string])
	want := slices.Sorted(slices.Values(m.model.Events))
	if slices.Sort(events); err != nil || !slices.Equal(events, want) {
		t.Fatalf("events %v, want %v, %v", events, want, err)
	}
	if offended := m.b.offended(); len(offended) > 0 {
		t.Fatalf("does not hold: %v", offended)
	}
}
