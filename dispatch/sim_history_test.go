package dispatch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

var (
	simHistories = flag.Int("histories", 500, "histories of TestSimulatedHistories")
	simSeed      = flag.Uint64("seed", 1, "seed of the first of them")
)

// What a history is made of.
const (
	simIntents = 12
	simFaults  = 90 * time.Second // of fake time
	simStand   = 40 * time.Second
	simMended  = 2 * time.Hour // by then everything is settled: growing pauses of a channel and back-off included
)

var errSim = errors.New("the simulated database does not answer")

// simHost is the machine that one dispatcher runs on, and what goes wrong there.
type simHost struct {
	world *simWorld

	mu      sync.Mutex
	rng     *rand.Rand
	per     int // faults per hundred calls
	dead    bool
	standby time.Time // it stands still until then
}

func (h *simHost) draw(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

func (h *simHost) faulty() bool {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.world.faulty
}

// stand waits while the host stands still: no context ends that.
func (h *simHost) stand() {
	h.mu.Lock()
	until := h.standby
	h.mu.Unlock()
	time.Sleep(time.Until(until))
}

func (h *simHost) gone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// call makes one call of the store, with its faults: it fails and did not happen, fails and did happen, or is slow; the host stands
// still before or after it, or is gone.
func (h *simHost) call(ctx context.Context, do func()) error {
	h.stand()
	wait, fault := time.Duration(h.draw(3000))*time.Microsecond, 100
	if h.faulty() {
		fault = h.draw(100)
		if h.draw(100) < h.per/2 {
			wait = time.Duration(h.draw(14000)) * time.Millisecond
		}
	}
	if !simSleep(ctx, wait/2) {
		return ctx.Err()
	}
	if h.gone() || fault < h.per/2 {
		return errSim
	}
	do()
	if !simSleep(ctx, wait/2) {
		return ctx.Err()
	}
	h.stand()
	if h.gone() || fault < h.per {
		return errSim
	}
	return nil
}

// simDispatcher is a dispatcher without a broker: lanes, settler and patrol, made and started as Start does.
type simDispatcher struct {
	*Dispatcher
	host *simHost
}

func newSimDispatcher(w *simWorld, m *metrics, seed, n uint64) *simDispatcher {
	h := &simHost{world: w, rng: rand.New(rand.NewPCG(seed, n))}
	h.per = []int{0, 4, 12, 30}[h.draw(4)]
	d := &Dispatcher{
		owner: ownerName("sim"), store: &simLink{world: w, host: h}, lanes: map[string]*lane{}, log: slog.New(slog.DiscardHandler), metrics: m,
		intaking: newStage(), claiming: newStage(), sending: newStage(), writing: newStage(),
	}
	d.cfg = Config{Registry: simRegistry(w, h), Grace: 5 * time.Second}
	d.clock = &databaseClock{read: d.store.Clock}
	d.settler = &settler{
		store: d.store, metrics: m, log: d.log, ctx: d.writing.ctx, report: d.report,
		in: make(chan finding, simIntents), quit: make(chan struct{}), settled: func() {}, open: map[uuid.UUID]int{},
	}
	d.simLanes()
	_ = insist(d.claiming.ctx, func() error { return d.clock.refresh(d.claiming.ctx) })
	d.settler.start()
	d.claiming.run(d.keepTime)
	for _, l := range d.lanes {
		d.claiming.run(l.serveDirect)
		d.claiming.run(l.serveAgenda)
		l.wake.ring()
	}
	d.claiming.run(d.patrol.run)
	d.claiming.run(d.scout)
	return &simDispatcher{d, h}
}

// simLanes does what openLanes does, with queues so short that clearing them does not take longer than a history.
func (d *Dispatcher) simLanes() {
	p := policies(d.cfg.Registry)
	d.patrol = &patrol{
		store: d.store, writes: d.writing.ctx, lanes: d.lanes, owner: d.owner, settler: d.settler, clock: d.clock,
		metrics: d.metrics, log: d.log, report: d.report,
	}
	for _, e := range d.cfg.Registry.All() {
		d.lanes[e.Name] = &lane{
			entry: e, policy: p[e.Name], lease: intents.LeaseFor(p[e.Name].Contract.AttemptTimeout), store: d.store, settler: d.settler,
			metrics: d.metrics, log: d.log, owner: d.owner, report: d.report, senders: semaphore.NewWeighted(int64(e.Settings.Concurrency)),
			direct: make(chan intents.Claim, simIntents), wake: newBell(), sends: d.sending.ctx, writes: d.writing.ctx,
			gate: newGate(e.Name, e.Settings, d.log, func(bool) {}),
		}
		d.patrol.names = append(d.patrol.names, e.Name)
	}
}

func simRegistry(w *simWorld, h *simHost) *channels.Registry {
	entry := func(name string, g channels.Guarantee, s channels.Settings) channels.Entry {
		s.MaxAttempts, s.MaxAge = 6, 10*time.Minute
		return channels.Entry{Name: name, Type: "sim", Channel: &simChannel{contract: simContract(g), world: w, host: h}, Settings: s}
	}
	r, err := channels.NewRegistry(
		entry("keyed", channels.Keyed, channels.Settings{Concurrency: 2}),
		entry("replaceable", channels.Replaceable, channels.Settings{Concurrency: 2, OnUnknown: channels.OnUnknownResend}),
		entry("visible", channels.DuplicateVisible, channels.Settings{Concurrency: 2, Rate: 3}),
	)
	if err != nil {
		panic(err)
	}
	return r
}

// leave ends it in order, and then its process.
func (d *simDispatcher) leave() {
	_ = d.Drain(context.Background()) // too short a time is one of the faults
	d.die()
}

func (d *simDispatcher) die() {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	d.host.dead = true
}

// crash ends it at once: nothing that it knows reaches the store any more. What still runs ends, for the bubble's sake.
func (d *simDispatcher) crash() {
	d.die()
	d.abandon()
	d.claiming.wg.Wait()
	for _, l := range d.lanes {
		l.emptyDirect()
		l.running.Wait()
	}
	d.settler.stop()
}

// simHistory runs one history and returns the promises that it broke, and what became of its intents.
func simHistory(m *metrics, seed uint64) (broken []string, ends map[string]int) {
	w := &simWorld{byID: map[uuid.UUID]*simRow{}, pauses: map[string]*simPause{}, faulty: true}
	rng := rand.New(rand.NewPCG(seed, 0))
	var all []*simDispatcher
	var leaving sync.WaitGroup
	next := uint64(1)
	for range 2 + rng.IntN(2) {
		all = append(all, newSimDispatcher(w, m, seed, next))
		next++
	}
	names := []string{"keyed", "replaceable", "visible"}
	guarantees := []channels.Guarantee{channels.Keyed, channels.Replaceable, channels.DuplicateVisible}
	for began := time.Now(); time.Since(began) < simFaults; {
		time.Sleep(time.Duration(rng.IntN(8000)) * time.Millisecond)
		for range min(rng.IntN(4), simIntents-len(w.rows)) {
			i := rng.IntN(3)
			ttl := []time.Duration{0, 0, 20 * time.Second, 2 * time.Minute}[rng.IntN(4)]
			w.admit(names[i], simContract(guarantees[i]), ttl, time.Duration(rng.IntN(2)*rng.IntN(5000))*time.Millisecond)
		}
		i := rng.IntN(len(all))
		switch d := all[i]; rng.IntN(8) {
		case 0: // a crash, and another life
			leaving.Go(d.crash)
			all[i] = newSimDispatcher(w, m, seed, next)
			next++
		case 1: // it leaves in order
			leaving.Go(d.leave)
			all[i] = newSimDispatcher(w, m, seed, next)
			next++
		case 2, 3: // it stands still, often past its leases
			d.host.mu.Lock()
			d.host.standby = time.Now().Add(time.Duration(1 + rng.Int64N(int64(simStand))))
			d.host.mu.Unlock()
		}
	}
	w.mu.Lock()
	w.faulty = false
	w.mu.Unlock()
	for began := time.Now(); !w.settled() && time.Since(began) < simMended; {
		time.Sleep(5 * time.Second)
	}
	for _, d := range all {
		leaving.Go(d.leave)
	}
	leaving.Wait()
	w.late.Wait()
	time.Sleep(2 * simStand) // whoever stood still ends, too
	synctest.Wait()
	return w.judge()
}

func (w *simWorld) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		if !r.state.Terminal() && r.state != intents.UnknownState {
			return false
		}
	}
	return true
}

// judge holds what must be true at the end: I1, I2 and I4.
func (w *simWorld) judge() ([]string, map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := map[string]int{}
	for _, r := range w.rows {
		n := w.applied(r)
		ends[fmt.Sprintf("%s %s", r.Identity.Channel, r.state)]++
		ends["takeovers"] += r.Takeovers
		ends["resends"] += r.duplicate
		if !r.state.Terminal() && r.state != intents.UnknownState {
			w.breaks(r, "I4: it is still open, due %v ago, lease over %v ago", time.Since(r.due), time.Since(r.lease))
		}
		if n > 1 && r.Guarantee == channels.DuplicateVisible {
			w.breaks(r, "I1: applied %d times", n)
		}
		switch r.state {
		case intents.Succeeded:
			if n == 0 {
				w.breaks(r, "I2: succeeded, and the provider has nothing")
			}
		case intents.Rejected, intents.Expired, intents.Exhausted:
			if n > 0 {
				w.breaks(r, "it says that nothing was sent, and the provider has it")
			}
		}
	}
	return w.broken, ends
}

// TestSimulatedHistories runs the core against a database and providers in memory, on a fake clock, with faults drawn from a seed. The
// seed gives the faults; jitter and the order of goroutines are not its, so that a seed may have to be run a few times to fail again.
func TestSimulatedHistories(t *testing.T) {
	registry, err := channels.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	m := newMetrics(nil, registry, func() float64 { return 1 })
	began, ends := time.Now(), map[string]int{}
	for i := range *simHistories {
		seed := *simSeed + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			broken, found := simHistory(m, seed)
			for _, b := range broken {
				t.Errorf("seed %d: %s", seed, b)
			}
			for what, n := range found {
				ends[what] += n
			}
		})
		if t.Failed() {
			t.Fatalf("history %d broke a promise; its faults again: go test ./dispatch -run TestSimulatedHistories -histories 1 -seed %d -count 20", i+1, seed)
		}
	}
	t.Logf("%d histories, %.0f a minute: %v", *simHistories, float64(*simHistories)/time.Since(began).Minutes(), ends)
}
