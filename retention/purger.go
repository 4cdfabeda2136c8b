package retention

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/intents"
)

const (
	duty        = "purge"
	dutyLease   = 15 * time.Second
	dutyRenewal = 5 * time.Second
	firstRound  = time.Second
	callTimeout = 15 * time.Second

	roundSteps = 200 // of one kind in one round, so that a backlog of one kind keeps no other waiting
	stepRows   = 500
	lookPages  = 50
	lookRows   = 1000
)

// Config is what a Purger needs.
type Config struct {
	Owner   string // names this process among the purgers of a database
	Windows Windows
	Every   time.Duration // between rounds; 0: a minute
	Store   Store
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Purger forgets what is outside its windows. Use it as New, Start, Stop, each once. Any number of processes may have one: the one that
// holds the duty works, the others only look.
type Purger struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics

	cancel  context.CancelFunc
	running sync.WaitGroup

	// Of the one goroutine that runs, or of Round's caller.
	walks, looks map[intents.PurgeKind]*walk
	failing      map[string]bool // steps whose last try failed
	onDuty       bool
	until        time.Time // local; the duty is to be believed in until then
	renewAt      time.Time // local
	lookAt       time.Time // local
	roundAt      time.Time // local
}

// New returns a Purger that does nothing yet.
func New(cfg Config) (*Purger, error) {
	if cfg.Store == nil || cfg.Log == nil || cfg.Owner == "" {
		return nil, errors.New("retention: store, logger and owner are needed")
	}
	if err := cfg.Windows.check(); err != nil {
		return nil, err
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Minute
	}
	p := &Purger{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Metrics, cfg.Windows),
		walks: map[intents.PurgeKind]*walk{}, looks: map[intents.PurgeKind]*walk{}, failing: map[string]bool{},
	}
	for _, kind := range intents.PurgeKinds() {
		p.walks[kind], p.looks[kind] = &walk{}, &walk{}
	}
	return p, nil
}

// Start begins to purge, and says which windows apply. It does not wait for anything.
func (p *Purger) Start() {
	w := p.cfg.Windows
	p.log.Info("retention", "keys", w.Keys, "contents", w.Contents, "intents", w.Intents, "refusals", w.Intents)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.running.Go(func() { p.run(ctx) })
}

// Stop ends what is under way, which leaves whole batches only, and gives the duty up. It returns when nothing runs any more, or
// when ctx ends.
func (p *Purger) Stop(ctx context.Context) error {
	p.cancel()
	done := make(chan struct{})
	go func() { p.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !p.onDuty {
		return nil
	}
	_, err := p.cfg.Store.OnDuty(ctx, duty, p.cfg.Owner, 0)
	return err
}

func (p *Purger) run(ctx context.Context) {
	tick := min(p.cfg.Every, dutyRenewal)
	for wait := firstRound; pause(ctx, jittered(min(wait, tick))); wait = tick {
		if p.due(&p.lookAt) {
			p.look(ctx)
		}
		if p.hold(ctx) && p.due(&p.roundAt) {
			if more := p.round(ctx); more {
				p.roundAt = time.Time{}
			}
		}
	}
}

// due says whether it is time, and if so sets the next one.
func (p *Purger) due(at *time.Time) bool {
	now := time.Now()
	if now.Before(*at) {
		return false
	}
	*at = now.Add(jittered(p.cfg.Every))
	return true
}

// hold takes or renews the duty in time. Two that believe to hold it do no harm.
func (p *Purger) hold(ctx context.Context) bool {
	before := time.Now()
	if before.Before(p.renewAt) {
		return p.onDuty && before.Before(p.until)
	}
	call, cancel := context.WithTimeout(ctx, dutyRenewal)
	defer cancel()
	ok, err := p.cfg.Store.OnDuty(call, duty, p.cfg.Owner, dutyLease)
	if err != nil {
		p.note(ctx, "duty", err)
		return p.onDuty && before.Before(p.until)
	}
	p.note(ctx, "duty", nil)
	if ok != p.onDuty {
		p.log.Debug("the duty of purging changed", "on_duty", ok)
	}
	p.onDuty, p.until, p.renewAt = ok, before.Add(dutyLease), before.Add(jittered(min(dutyRenewal, p.cfg.Every)))
	return ok
}

// note logs when a step begins to fail, and when it does so no more.
func (p *Purger) note(ctx context.Context, step string, err error) {
	if ctx.Err() != nil { // our own leaving
		return
	}
	failed := err != nil
	if failed == p.failing[step] {
		return
	}
	p.failing[step] = failed
	if failed {
		p.log.Warn("a purge does not get on; it is tried again with every round", "step", step, "error", err)
		return
	}
	p.log.Info("a purge gets on again", "step", step)
}
