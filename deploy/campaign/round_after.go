package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

const (
	settlePatience = 2 * time.Minute  // until everything is settled, intents that back off included
	lookPatience   = 10 * time.Second // within which somebody must have looked at what is due, on a busy machine
)

// open is what is not settled yet.
type open struct {
	intents, overdue, outbox int
	requests                 uint64 // in the stream
	waiting                  uint64 // of them, those that the dispatchers have yet to take or to acknowledge
	oldest                   string
}

func (o open) String() string {
	return fmt.Sprintf("%d intents open, %d of them overdue (%s), %d rows in the outbox, %d requests in the stream, %d of them to be taken or acknowledged",
		o.intents, o.overdue, o.oldest, o.outbox, o.requests, o.waiting)
}

// settled waits until every intent is terminal or UNKNOWN, every request is taken and every event is out. What is overdue when a lease and
// some seconds have passed since everything was mended is a violation, as is what is never settled.
//
// A broker that was killed can keep a request that was acknowledged: no consumer gets it any more, and it stays in the stream
// (https://github.com/nats-io/nats-server/issues/5542). A new consumer gets it again, which must change nothing and remove it; that is
// what an operator does about it, too.
func (r *round) settled(ctx context.Context) ([]violation, error) {
	nc, err := nats.Connect(r.broker.url())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	conn, err := r.worker.db.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		left, err := r.open(ctx, conn, js)
		since := time.Since(r.mended)
		switch {
		case err != nil:
			return nil, err
		case left.intents == 0 && left.outbox == 0 && left.requests == 0:
			return nil, nil
		case left.intents == 0 && left.outbox == 0 && left.waiting == 0 && r.kept == 0 && since > r.lease:
			r.kept = int(left.requests)
			if err := js.DeleteConsumer(ctx, wire.RequestStream, consumerName); err != nil {
				return nil, err
			}
		case left.overdue > 0 && since > r.lease+lookPatience:
			return []violation{{"I4", fmt.Sprintf("%v after everything was mended: %v", since.Round(time.Second), left)}}, nil
		case since > settlePatience:
			return []violation{{"I4", fmt.Sprintf("not settled %v after everything was mended: %v", since.Round(time.Second), left)}}, nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

const openSQL = `select (select count(*) from intents where state in ('pending', 'sending')),
	(select count(*) from outbox), o.n, o.oldest
  from (select count(*) n, coalesce(min(format('%s %s since %s', kind, intent_id, at)), '') oldest from (
	select intent_id, kind, at from agenda where kind in ('due', 'leased') and at < now() - $1::interval
	union all
	select i.id, 'claimed', b.lease_until from claim_batches b cross join unnest(b.intents) x (id) join intents i on i.id = x.id
	 where i.state = 'sending' and i.generation = 1 and b.lease_until < now() - $1::interval) a) o`

func (r *round) open(ctx context.Context, conn *pgx.Conn, js jetstream.JetStream) (open, error) {
	var o open
	err := conn.QueryRow(ctx, openSQL, lookPatience).Scan(&o.intents, &o.outbox, &o.overdue, &o.oldest)
	if err != nil {
		return o, err
	}
	stream, err := js.Stream(ctx, wire.RequestStream)
	switch {
	case errors.Is(err, nats.ErrNoResponders): // a cluster elects its leader
		o.requests = 1
	case err != nil:
		return o, err
	default:
		o.requests = stream.CachedInfo().State.Msgs
	}
	o.waiting = o.requests
	consumer, err := js.Consumer(ctx, wire.RequestStream, consumerName)
	if err == nil { // read after the stream: what it has to give was there
		o.waiting = consumer.CachedInfo().NumPending + uint64(consumer.CachedInfo().NumAckPending)
	} else if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, nats.ErrNoResponders) {
		return o, err
	}
	return o, nil
}

// takeovers is how long it took from each kill until what the dead process had claimed was settled by another: clean where the lease ended
// when everything was mended, amid the faults where it ended earlier.
type takeovers struct{ clean, amid []time.Duration }

const takeoverSQL = `select a.owner, a.started_at, (select min(c.at) from changes c where c.intent_id = t.intent_id and c.id > t.id and c.generation = t.generation)
  from changes t join attempts a on a.intent_id = t.intent_id and a.generation = t.generation - 1
 where t.cause = 'takeover'`

func (r *round) takeoverTimes(ctx context.Context) (out takeovers, err error) {
	died := map[string]time.Time{}
	for _, s := range r.slots {
		for _, d := range s.lives {
			if at := d.log.ending(); !at.IsZero() && d.killed() {
				died[d.log.owner()] = at
			}
		}
	}
	conn, err := r.worker.db.connect(ctx)
	if err != nil {
		return out, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, takeoverSQL)
	if err != nil {
		return out, err
	}
	var owner string
	var claimed time.Time
	var settled *time.Time
	_, err = pgx.ForEachRow(rows, []any{&owner, &claimed, &settled}, func() error {
		death, ok := died[owner]
		switch {
		case !ok || settled == nil || settled.Before(death): // it was paused, and killed after that
		case claimed.Add(r.lease).Before(r.mended):
			out.amid = append(out.amid, settled.Sub(death))
		default:
			out.clean = append(out.clean, settled.Sub(death))
		}
		return nil
	})
	return out, err
}

// readEvents is every event that the service told.
func readEvents(ctx context.Context, url string) ([]wire.Event, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, wire.EventStream)
	if err != nil {
		return nil, fmt.Errorf("the stream of events: %w", err)
	}
	var events []wire.Event
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // a repeat that the broker dropped may leave a gap in a cluster
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", seq, err)
		}
		event, err := wire.DecodeEvent(msg.Data)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", seq, err)
		}
		events = append(events, event)
	}
	return events, nil
}

// logs is what every dispatcher of the round wrote.
func (r *round) logs() string {
	var text strings.Builder
	for _, s := range r.slots {
		s.mu.Lock()
		for _, d := range s.lives {
			text.Write(d.log.bytes())
		}
		s.mu.Unlock()
	}
	return text.String()
}

// reached is the fault points that some dispatcher passed.
func (r *round) reached() []string {
	var points []string
	for _, line := range ledgerLines(filepath.Join(r.dir, "points")) {
		if point, _, ok := strings.Cut(line, " reached"); ok && !slices.Contains(points, point) {
			points = append(points, point)
		}
	}
	return points
}
