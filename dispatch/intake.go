package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

const (
	admitBatch     = 500
	streamClerks   = 2 // batches under way at once
	streamPatience = 6 * time.Second
	submitPatience = 3 * time.Second
	submitExpiry   = 5 * time.Second // a submit request older than this is not begun
)

// intake takes requests in: from the stream and by request–reply, on one pipeline. Admission never waits for a channel.
type intake struct {
	js       jetstream.JetStream
	nc       *nats.Conn
	create   bool
	store    Store
	registry *channels.Registry
	deriver  *dedup.Deriver
	horizon  dedup.Horizon
	clock    *databaseClock
	lanes    map[string]*lane
	settler  *settler
	relay    *relay
	owner    string
	metrics  *metrics
	health   *health
	log      *slog.Logger
	report   func(call string, err error)

	stage   *stage
	writes  context.Context // outlives the stage: what was begun is finished
	stream  chan letter
	submits chan letter
	desk    chan struct{} // bounds status and cancel requests under way

	streamRoom, submitRoom *budget // what the letters in hand may occupy
}

func newIntake(d *Dispatcher) *intake {
	return &intake{
		js: d.js, nc: d.cfg.NATS, create: d.cfg.CreateStreams, store: d.store, registry: d.cfg.Registry, deriver: d.cfg.Deriver,
		horizon: dedup.Horizon{Age: d.cfg.Horizon, Future: future}, clock: d.clock, lanes: d.lanes, settler: d.settler, relay: d.relay,
		owner: d.owner, metrics: d.metrics, health: &d.health, log: d.log, report: d.report,
		stage: &d.intaking, writes: d.writing.ctx,
		stream: make(chan letter, admitBatch), submits: make(chan letter, admitBatch), desk: make(chan struct{}, 32),
		streamRoom: newBudget(streamBytes, d.metrics.inHand.WithLabelValues("stream")),
		submitRoom: newBudget(submitBytes, d.metrics.inHand.WithLabelValues("submit")),
	}
}

// start subscribes and begins to take requests in.
func (in *intake) start(ctx context.Context) error {
	if err := in.subscribe(ctx); err != nil {
		return err
	}
	in.health.set("intake", "the consumer is being set up")
	for range streamClerks {
		in.stage.run(func(ctx context.Context) { in.clerk(ctx, in.stream, streamPatience) })
	}
	in.stage.run(func(ctx context.Context) { in.clerk(ctx, in.submits, submitPatience) })
	in.stage.run(in.consume)
	return nil
}

// clerk takes what has arrived, never waiting for more, and handles it as one batch.
func (in *intake) clerk(ctx context.Context, from <-chan letter, patience time.Duration) {
	for {
		select {
		case <-ctx.Done():
			for {
				select {
				case l := <-from:
					l.back.postpone()
				default:
					return
				}
			}
		case l := <-from:
			in.handle(ctx, fresh(gather(l, from)), patience)
		}
	}
}

// fresh answers the letters that have waited too long, and returns the others.
func fresh(letters []letter) []letter {
	out, now := letters[:0], time.Now()
	for _, l := range letters {
		if !l.expires.IsZero() && now.After(l.expires) {
			l.back.postpone()
			continue
		}
		out = append(out, l)
	}
	return out
}

// entry is one letter on its way through admission: it ends refused, judged, or not taken.
type entry struct {
	letter    letter
	channel   string // as the subject names it
	decoded   bool
	admission intents.Admission
	lane      *lane // nil when this process does not send on the channel
	reserved  bool  // room in the lane, for a claim at admission
	late      bool  // expires_at has passed
	refusal   *intents.Refusal
	verdict   intents.Verdict
	err       error // the database did not take it
}

// handle is the body of admission.
func (in *intake) handle(ctx context.Context, letters []letter, patience time.Duration) {
	batch := in.readAll(letters)
	fault.At(fault.IntakeRead)
	in.judgeLate(ctx, batch, patience)
	in.reserve(batch)
	in.admit(ctx, open(batch), patience)
	in.handOver(batch)
	in.refuse(ctx, batch, patience)
	in.answer(batch)
}

// open returns what is neither refused nor given up.
func open(batch []*entry) []*entry {
	var out []*entry
	for _, e := range batch {
		if e.refusal == nil && e.err == nil {
			out = append(out, e)
		}
	}
	return out
}

// judgeLate refuses what would come too late, unless it repeats a request that was admitted in time: that one is answered as a duplicate.
// A database that does not answer for one is not asked for the next: all of them come again.
func (in *intake) judgeLate(ctx context.Context, batch []*entry, patience time.Duration) {
	var away error
	for _, e := range open(batch) {
		if !e.late {
			continue
		}
		if e.err = away; away != nil {
			continue
		}
		found := false
		e.err = in.try(ctx, patience, "find", func(call context.Context) (err error) {
			_, found, err = in.store.FindByIdentity(call, e.admission.Identity)
			return err
		})
		if away = e.err; away == nil && !found {
			e.refusal = in.refusalOf(e, errExpired)
		}
	}
}

// reserve asks the lanes for room, so that a claim is asked for only where a sender will be free soon.
func (in *intake) reserve(batch []*entry) {
	for _, e := range open(batch) {
		if e.lane == nil || e.admission.NotBefore.After(in.clock.now()) {
			continue
		}
		e.reserved = e.lane.reserve(int64(len(e.admission.Rendered)))
		e.admission.ClaimNow = e.reserved
	}
}

// handOver gives claims to their lanes and wakes the lanes of what was admitted without one.
func (in *intake) handOver(batch []*entry) {
	for _, e := range batch {
		claim, bytes := e.verdict.Claim, int64(len(e.admission.Rendered))
		switch {
		case claim != nil && e.lane != nil && e.reserved:
			e.lane.push(*claim, bytes)
		case e.reserved:
			e.lane.release(bytes)
			fallthrough
		case e.lane != nil && e.verdict.Kind == intents.Accepted:
			e.lane.due(in.clock.localTime(e.admission.NotBefore))
		}
	}
}

// try calls the database until it answers or patience is over. What was begun is finished also when the dispatcher leaves meanwhile.
func (in *intake) try(ctx context.Context, patience time.Duration, call string, do func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return insist(waiting, func() error {
		work, cancel := context.WithTimeout(in.writes, patience)
		defer cancel()
		err := do(work)
		in.report(call, err)
		return err
	})
}
