package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// Dispatcher carries requests from NATS messages to settled intents. Use it as New, Start, Drain, each once.
type Dispatcher struct {
	cfg      Config
	owner    string
	log      *slog.Logger
	store    Store
	js       jetstream.JetStream
	clock    *databaseClock
	health   health
	database answers
	metrics  *metrics
	lanes    map[string]*lane
	settler  *settler
	patrol   *patrol
	relay    *relay
	intake   *intake

	// What runs ends in this order: intake, then claims, then sends, then writes.
	intaking, claiming, sending, writing stage
}

// stage is a group of goroutines that end together.
type stage struct {
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

func newStage() stage {
	ctx, cancel := context.WithCancel(context.Background())
	return stage{ctx: ctx, stop: cancel}
}

func (s *stage) run(f func(context.Context)) { s.wg.Go(func() { f(s.ctx) }) }

// New returns a Dispatcher that does nothing yet. Its error says what the configuration lacks.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	js, err := jetstream.New(cfg.NATS, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	d := &Dispatcher{
		cfg: cfg, owner: ownerName(cfg.Owner), store: cfg.Store, js: js, lanes: map[string]*lane{},
		clock:    &databaseClock{read: cfg.Store.Clock},
		intaking: newStage(), claiming: newStage(), sending: newStage(), writing: newStage(),
	}
	d.log = cfg.Log.With("owner", d.owner)
	d.metrics = newMetrics(cfg.Metrics, cfg.Registry, d.readiness)
	d.relay = &relay{store: d.store, js: js, owner: d.owner, metrics: d.metrics, log: d.log, report: d.report, bell: newBell()}
	d.settler = &settler{
		store: d.store, metrics: d.metrics, log: d.log, ctx: d.writing.ctx, report: d.report,
		in: make(chan finding, maxRoom), quit: make(chan struct{}), settled: d.relay.bell.ring, open: map[uuid.UUID]int{},
	}
	if cfg.Dispatch {
		d.openLanes()
	}
	if cfg.Intake {
		d.intake = newIntake(d)
	}
	return d, nil
}

// ownerName is unique per process start: a claim of an earlier life of this host is not ours.
func ownerName(prefix string) string {
	if prefix == "" {
		prefix = "onebell"
	}
	return prefix + "/" + uuid.NewString()[:8]
}

func (d *Dispatcher) openLanes() {
	p := policies(d.cfg.Registry)
	d.patrol = &patrol{
		store: d.store, writes: d.writing.ctx, lanes: d.lanes, owner: d.owner, settler: d.settler, clock: d.clock,
		metrics: d.metrics, log: d.log, report: d.report,
	}
	for _, e := range d.cfg.Registry.All() {
		d.lanes[e.Name] = d.newLane(e, p[e.Name])
		d.patrol.names = append(d.patrol.names, e.Name)
	}
}

func (d *Dispatcher) newLane(e channels.Entry, p intents.Policy) *lane {
	open := d.metrics.breakerOpen.WithLabelValues(e.Name)
	return &lane{
		entry: e, policy: p, lease: intents.LeaseFor(p.Contract.AttemptTimeout), store: d.store, settler: d.settler,
		metrics: d.metrics, log: d.log, owner: d.owner, report: d.report, senders: semaphore.NewWeighted(int64(max(1, e.Settings.Concurrency))),
		direct: make(chan intents.Claim, maxRoom), wake: newBell(), sends: d.sending.ctx, writes: d.writing.ctx,
		gate: newGate(e.Name, e.Settings, d.log, func(isOpen bool) { open.Set(map[bool]float64{true: 1}[isOpen]) }),
	}
}

// Start brings the dispatcher up: it reads the database's clock, ensures streams and consumer, and begins to work. ctx bounds the
// start alone. When it returns an error nothing runs; a *SettingsError lists what does not fit on the broker.
func (d *Dispatcher) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			d.abandon()
		}
	}()
	if err := d.clock.refresh(ctx); err != nil {
		return fmt.Errorf("dispatch: the database does not answer; check ONEBELL_DATABASE_URL: %w", err)
	}
	if err := EnsureStreams(ctx, d.js, d.cfg.CreateStreams); err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	if d.intake != nil {
		if err := d.intake.start(ctx); err != nil {
			return fmt.Errorf("dispatch: %w", err)
		}
	}
	d.settler.start()
	d.claiming.run(d.keepTime)
	if d.cfg.Dispatch {
		d.startSending(ctx)
	}
	d.log.Info("dispatcher started", "intake", d.cfg.Intake, "dispatch", d.cfg.Dispatch, "channels", len(d.cfg.Registry.All()))
	return nil
}

func (d *Dispatcher) startSending(ctx context.Context) {
	d.patrol.states(ctx)
	for _, l := range d.lanes {
		d.claiming.run(l.serveDirect)
		d.claiming.run(l.serveAgenda)
		l.wake.ring()
	}
	d.claiming.run(d.patrol.run)
	d.claiming.run(d.scout)
	d.sending.run(d.relay.run)
}

// Owner returns the name under which this dispatcher claims.
func (d *Dispatcher) Owner() string { return d.owner }

// Ready returns why the dispatcher is not ready, a sentence each; nothing when it is. It is safe for concurrent use.
func (d *Dispatcher) Ready() []string {
	reasons := d.health.list()
	if !d.database.ready(time.Now()) {
		reasons = append(reasons, "database: calls fail; the dispatcher goes on trying")
	}
	if d.cfg.NATS.Status() != nats.CONNECTED {
		reasons = append(reasons, "broker: not connected")
	}
	return reasons
}

func (d *Dispatcher) readiness() float64 {
	if len(d.Ready()) == 0 {
		return 1
	}
	return 0
}

// report notes how a call of the database went.
func (d *Dispatcher) report(call string, err error) {
	if errors.Is(err, context.Canceled) { // our own leaving
		return
	}
	tell := d.database.note(err != nil, time.Now())
	switch {
	case err != nil:
		d.metrics.storeErrors.WithLabelValues(call).Inc()
		if tell {
			d.log.Warn("the database does not do what it is asked; the dispatcher goes on trying", "call", call, "error", err)
		}
	case tell:
		d.log.Info("the database answers again", "call", call)
	}
}

// leave waits for a group of goroutines, no longer than ctx.
func leave(ctx context.Context, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
