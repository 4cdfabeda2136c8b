package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// Sizes of a round.
const (
	dispatchers    = 3
	attemptTimeout = time.Second
	chaosTime      = 20 * time.Second
	facts          = 400
)

// leaseTime is how long a claim stands.
var leaseTime = intents.LeaseFor(attemptTimeout)

// round is one seed: a fresh broker and database, dispatchers, providers and producers, some seconds of faults, and what is left.
type round struct {
	seed   uint64
	worker *worker
	dir    string // of its logs
	record *record
	lease  time.Duration

	broker    *broker
	wire      *local.Wire
	brokers   []*link
	databases []*link
	peers     *peers
	producers *producers
	slots     []*slot
	watcher   *watcher
	telling   chan error // ends with the producers
	mended    time.Time
	kept      int // requests that the broker kept although they were acknowledged
}

// outcome is what a round found.
type outcome struct {
	seed       uint64
	faults     []injected
	reached    []string // fault points
	violations []violation
	summary    summary
	takeovers  takeovers
	kept       int // requests that the broker kept although they were acknowledged
	took       time.Duration
	logs       string // the folder, where there is a violation
}

// run is the whole round. An error is the campaign's own, not the product's.
func (r *round) run(ctx context.Context) (o outcome, err error) {
	begin := time.Now()
	o.seed, r.record, r.lease = r.seed, &record{}, leaseTime
	defer func() { o.took = time.Since(begin) }()
	ctx, stop := context.WithCancel(ctx)
	defer r.down()
	defer stop()
	if err := r.up(ctx); err != nil {
		return o, err
	}
	if err := r.chaos(ctx); err != nil {
		return o, err
	}
	api, err := r.mend(ctx)
	if err != nil {
		return o, err
	}
	return r.judge(ctx, api, o)
}

// up starts everything but the dispatchers.
func (r *round) up(ctx context.Context) (err error) {
	if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o755)); err != nil { // an earlier run may have left it
		return err
	}
	if err := r.worker.db.fresh(ctx, fmt.Sprintf("seed_%d", r.seed)); err != nil {
		return err
	}
	if r.broker, err = startBroker(r.worker.root, r.dir); err != nil {
		return err
	}
	if r.wire, err = local.StartWire(r.worker.db.url()); err != nil {
		return err
	}
	if r.peers, err = newPeers(r.rnd("peers")); err != nil {
		return err
	}
	r.watcher, r.telling = newWatcher(r.admins), make(chan error, 1)
	r.producers = newProducers(r.broker.url(), r.peers, r.rnd("producers"), facts)
	if r.forgetful() {
		r.producers.age()
	}
	for n := range dispatchers {
		if err := r.addSlot(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) addSlot(n int) error {
	toBroker, err := newLink(r.broker.addr())
	if err != nil {
		return err
	}
	r.brokers = append(r.brokers, toBroker)
	toDatabase, err := newLink(r.wire.Addr())
	if err != nil {
		return err
	}
	r.databases = append(r.databases, toDatabase)
	s := &slot{
		binary: r.worker.binary, ledger: filepath.Join(r.dir, "points"), lease: r.lease, broker: toBroker, record: r.record, rnd: r.rnd(fmt.Sprint("slot ", n)),
		env: append(r.peers.env(),
			"ONEBELL_NATS_URL=nats://"+brokerUser+":"+brokerPassword+"@"+toBroker.addr(),
			"ONEBELL_DATABASE_URL="+strings.Replace(r.wire.URL(), r.wire.Addr(), toDatabase.addr(), 1),
			"ONEBELL_SECRET="+campaignSecret, "ONEBELL_ADMIN_ADDR=127.0.0.1:0", "ONEBELL_LOG_LEVEL=info", "ONEBELL_LOG_FORMAT=json"),
	}
	if s.also = r.everywhere(); strings.Contains(s.also, string(fault.SweepDone)) {
		s.slow = slow // or nothing expires before it is sent
	}
	if r.forgetful() {
		s.forgetful, s.forgets = forgetfulWindows, fmt.Sprintf("%s:1:kill", purges[int(r.seed/3)%len(purges)])
	}
	r.slots = append(r.slots, s)
	return nil
}

// campaignSecret is the deployment's secret; no log may show it.
const campaignSecret = "canary-secret-0123456789abcdef0123456789abcdef"

// chaos runs everything at once for a while; when it returns no fault is injected any more.
func (r *round) chaos(ctx context.Context) error {
	r.peers.trouble(drawMishaps(r.rnd("mishaps")))
	go func() { r.telling <- r.producers.run(ctx, chaosTime*4/5) }() // longer than the faults, if need be: they insist
	go r.watcher.run(ctx)
	limited, stop := context.WithTimeout(ctx, chaosTime)
	defer stop()
	together, faulty := errgroup.WithContext(limited)
	for n, s := range r.slots {
		together.Go(func() error { s.chaos(faulty, r.firstLives(n)...); return nil })
	}
	for _, run := range r.weather() {
		together.Go(func() error { return run(faulty) })
	}
	return together.Wait()
}

// mend takes every fault away, starts dispatchers that nothing happens to, and waits until everything is settled.
func (r *round) mend(ctx context.Context) (*admin.Client, error) {
	r.peers.trouble(mishaps{})
	r.wire.Disarm()
	for _, k := range slices.Concat(r.brokers, r.databases) {
		k.refuse(false)
		k.release(towards)
		k.release(back)
	}
	r.mended = time.Now()
	addrs := make([]string, len(r.slots))
	together, starting := errgroup.WithContext(ctx)
	starting, cancel := context.WithTimeout(starting, time.Minute)
	defer cancel()
	for n, s := range r.slots {
		together.Go(func() (err error) {
			s.also, s.slow = "", nil // its windows stay
			d, err := s.start(life{})
			if err != nil {
				return err
			}
			addrs[n], err = d.serves(starting)
			return err
		})
	}
	if err := together.Wait(); err != nil {
		return nil, err
	}
	return admin.NewClient("http://"+addrs[0], "", nil)
}

// judge waits until everything is settled, gathers the evidence and has it checked.
func (r *round) judge(ctx context.Context, api *admin.Client, o outcome) (outcome, error) {
	select {
	case err := <-r.telling:
		if err != nil {
			return o, fmt.Errorf("the producers: %w", err)
		}
	case <-time.After(settlePatience):
		return o, errors.New("the producers do not get an answer to what they tell")
	}
	late, err := r.settled(ctx)
	if err != nil {
		return o, err
	}
	o.violations = append(o.violations, late...)
	for _, s := range r.slots {
		if s.faulty != nil {
			o.violations = append(o.violations, violation{"no fault explains it", s.faulty.Error()})
		}
		last := s.lives[len(s.lives)-1]
		select {
		case <-last.done:
			o.violations = append(o.violations, violation{"no fault explains it", "a dispatcher ended to which nothing happened:\n" + last.log.tail()})
		default:
		}
	}
	e, err := r.evidence(ctx, api)
	if err != nil {
		return o, err
	}
	o.violations = append(o.violations, check(ctx, e)...)
	if o.summary, err = summarize(ctx, e); err != nil {
		return o, err
	}
	if o.takeovers, err = r.takeoverTimes(ctx); err != nil {
		return o, err
	}
	o.faults, o.reached, o.kept = e.faults, r.reached(), r.kept
	if len(o.violations) > 0 {
		o.logs = r.dir
	}
	return o, errors.Join(r.keepEvidence(ctx, e, o), r.keep(o))
}

// evidence gathers what the round left behind.
func (r *round) evidence(ctx context.Context, api *admin.Client) (e evidence, err error) {
	r.record.addAll(r.peers.mishaps())
	r.record.addAll(r.producers.mishaps())
	e = evidence{
		effects: r.peers.effects(), told: r.producers.told(), api: api, logs: r.logs(), faults: r.record.all(), lease: r.lease, mended: r.mended,
		seen: r.watcher.sightings(), metrics: readMetrics(ctx, r.admins()), canaries: append(r.peers.canaries(), r.secrets()...),
	}
	e.events, err = readEvents(ctx, r.broker.url())
	return e, err
}

// down ends what is left.
func (r *round) down() {
	var all sync.WaitGroup
	for _, s := range r.slots {
		all.Go(s.end)
	}
	all.Wait()
	for _, k := range slices.Concat(r.brokers, r.databases) {
		k.close()
	}
	if r.wire != nil {
		r.wire.Close()
	}
	if r.broker != nil {
		r.broker.kill()
	}
	if r.peers != nil {
		r.peers.close()
	}
}
