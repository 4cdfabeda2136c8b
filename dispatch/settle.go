package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// finding is what is to be written about one claim.
type finding struct {
	settlement intents.Settlement
	claim      intents.Claim
	lane       *lane            // nil: not one of ours
	tried      bool             // an attempt was made
	known      channels.Outcome // what this process knows of the claim's effect; the zero value knows nothing
}

const (
	settlersAtOnce = 2
	settleBatch    = 500
	storeTimeout   = 10 * time.Second
	testifyTimeout = time.Minute
	finishedEvery  = 250 * time.Millisecond
)

// settler writes settlements in batches: it takes what is there and never waits for more. It goes on while the database is away,
// always with the same arguments, until ctx ends, which is after everything else has ended.
type settler struct {
	store   Store
	metrics *metrics
	log     *slog.Logger
	ctx     context.Context
	in      chan finding
	quit    chan struct{}
	done    sync.WaitGroup
	report  func(call string, err error)
	settled func() // something was settled that makes an event

	mu       sync.Mutex
	open     map[uuid.UUID]int // claims of an admission batch that are not settled yet
	finished []uuid.UUID       // batches whose claims are all settled
}

// expect notes an admission batch with n claims, before any of them is handed out.
func (s *settler) expect(batch uuid.UUID, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[batch] = n
}

// put takes a finding; it blocks while the database cannot keep up.
func (s *settler) put(f finding) {
	select {
	case s.in <- f:
	case <-s.ctx.Done():
		s.log.Error("a settlement was not written; its lease will be taken over", "intent", f.claim.ID)
	}
}

func (s *settler) start() {
	for range settlersAtOnce {
		s.done.Add(1)
		go s.run()
	}
}

// stop writes what is left. What is put afterwards is lost to the lease.
func (s *settler) stop() {
	close(s.quit)
	s.done.Wait()
}

func (s *settler) run() {
	defer s.done.Done()
	tick := time.NewTicker(finishedEvery)
	defer tick.Stop()
	for {
		select {
		case f := <-s.in:
			s.write(collect(f, s.in, settleBatch))
		case <-tick.C:
			s.write(nil)
		case <-s.quit:
			s.empty()
			return
		}
	}
}

func (s *settler) empty() {
	for {
		select {
		case f := <-s.in:
			s.write(collect(f, s.in, settleBatch))
		default:
			s.write(nil)
			return
		}
	}
}

// collect returns first and what else is there, up to limit.
func collect[T any](first T, in <-chan T, limit int) []T {
	batch := []T{first}
	for len(batch) < limit {
		select {
		case next := <-in:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// write settles a batch and hands on what became of each. While the database will not write it goes on asking; only a value that it
// will never take ends that, and then the batch is halved, so that one such settlement does not hold up its neighbours.
func (s *settler) write(batch []finding) {
	earlier, here := s.finishedWith(batch)
	if len(batch)+len(earlier) == 0 {
		return
	}
	results, err := s.call(batch, append(here, earlier...))
	switch {
	case err == nil:
		fault.At(fault.SettleDone)
		s.close(batch, here)
		for i, f := range batch {
			s.heed(f, results[i])
		}
	case s.ctx.Err() != nil || len(batch) < 2:
		s.log.Error("settlements were not written; their leases will be taken over", "settlements", len(batch), "error", err)
		s.forsake(batch)
	default:
		s.mu.Lock()
		s.finished = append(s.finished, earlier...)
		s.mu.Unlock()
		s.write(batch[:len(batch)/2])
		s.write(batch[len(batch)/2:])
	}
}

// call asks until it is answered. An error is worth no other try where the store says so, or when the dispatcher is gone.
func (s *settler) call(batch []finding, finished []uuid.UUID) (results []intents.Settled, err error) {
	settlements := make([]intents.Settlement, len(batch))
	for i, f := range batch {
		settlements[i] = f.settlement
	}
	_ = insist(s.ctx, func() error {
		ctx, cancel := context.WithTimeout(s.ctx, storeTimeout)
		defer cancel()
		fault.At(fault.SettleBefore)
		results, err = s.store.Settle(ctx, settlements, finished)
		s.report("settle", err)
		if errors.Is(err, intents.ErrUnstorable) {
			return nil
		}
		return err
	})
	if err == nil && len(batch) > 0 {
		s.metrics.batchSize.WithLabelValues("settle").Observe(float64(len(batch)))
	}
	return results, err
}

// finishedWith returns the admission batches that ended before, and those that end with these findings. A batch ends only in
// the same statement as its last claims or later: its row is what finds them should this process die.
func (s *settler) finishedWith(batch []finding) (earlier, here []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[uuid.UUID]int{}
	for _, f := range batch {
		if f.claim.Batch != uuid.Nil {
			n[f.claim.Batch]++
		}
	}
	for id, n := range n {
		if s.open[id] == n {
			here = append(here, id)
		}
	}
	earlier, s.finished = s.finished, nil
	return earlier, here
}

// close counts settled claims off their batches.
func (s *settler) close(batch []finding, finished []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range finished {
		delete(s.open, id)
	}
	for _, f := range batch {
		id := f.claim.Batch
		if _, ok := s.open[id]; !ok {
			continue
		}
		if s.open[id]--; s.open[id] == 0 {
			delete(s.open, id)
			s.finished = append(s.finished, id)
		}
	}
}

// forsake leaves admission batches to their leases: they are never said to be finished, so their rows stay and find what was not written.
func (s *settler) forsake(batch []finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range batch {
		delete(s.open, f.claim.Batch)
	}
}

// heed acts on what became of one settlement.
func (s *settler) heed(f finding, r intents.Settled) {
	t, name := f.settlement.Transition, s.metrics.channel(f.claim.Identity.Channel)
	switch {
	case r.Missing:
		s.say(slog.LevelError, f, "the intent of a settlement does not exist")
		return
	case r.Fenced:
		s.metrics.fenced.WithLabelValues(name).Inc()
		s.say(slog.LevelWarn, f, "the claim was gone before it was settled", "state", r.State)
		s.testify(f)
		return
	}
	s.metrics.settlements.WithLabelValues(name, string(r.State)).Inc()
	if t.PossibleDuplicate() && r.State == intents.Pending {
		s.metrics.possibleDuplicates.WithLabelValues(name).Inc()
	}
	level := slog.LevelDebug
	if r.State == intents.UnknownState || r.State == intents.Exhausted {
		level = slog.LevelWarn
	}
	s.say(level, f, "settled", "state", r.State, "code", t.Code())
	if r.State != intents.Pending {
		s.settled()
	} else if f.lane != nil {
		f.lane.due(time.Now().Add(t.Delay()))
	}
}

// say logs about one intent.
func (s *settler) say(level slog.Level, f finding, what string, more ...any) {
	if s.log.Enabled(s.ctx, level) {
		s.log.Log(s.ctx, level, what, append([]any{
			"intent", f.claim.ID, "channel", f.claim.Identity.Channel,
			"generation", f.claim.Generation, "result", f.known.Result().String(),
		}, more...)...)
	}
}

// testify records what a claimer knows of an effect whose claim it has lost.
func (s *settler) testify(f finding) {
	if !f.tried && !f.known.Definite() {
		return
	}
	testimony := f.settlement
	testimony.Outcome = f.known
	ctx, cancel := context.WithTimeout(s.ctx, testifyTimeout)
	defer cancel()
	var r intents.Settled
	err := insist(ctx, func() (err error) {
		fault.At(fault.WitnessBefore)
		r, err = s.store.Witness(ctx, testimony)
		s.report("witness", err)
		return err
	})
	if err != nil {
		s.say(slog.LevelError, f, "what a late finisher knows was not written", "error", err)
		return
	}
	s.say(slog.LevelWarn, f, "a late finisher's outcome is on record as evidence", "state", r.State)
	if r.State == intents.Pending && f.lane != nil {
		f.lane.due(time.Now())
	}
}
