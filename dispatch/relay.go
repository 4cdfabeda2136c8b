package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

const (
	relayDuty   = "relay"
	dutyLease   = 15 * time.Second
	dutyRenewal = 5 * time.Second
	relayRows   = 100
	relayShort  = 200 * time.Millisecond
	relayLong   = 4 * time.Second
	ackTimeout  = 5 * time.Second
)

// relay publishes the outbox. One dispatcher at a time is on duty, and a row is published when every event of the row
// before it is on the broker, so that the events of an intent stay in order. An event may be published twice, under one id.
type relay struct {
	store   Outbox
	js      jetstream.JetStream
	owner   string
	metrics *metrics
	log     *slog.Logger
	report  func(call string, err error)
	bell    bell

	onDuty  bool
	until   time.Time // local; the duty is to be believed in until then
	renewAt time.Time // local
}

func (r *relay) run(ctx context.Context) {
	p := pace{short: relayShort, long: relayLong}
	for found := true; pause(ctx, p.next(found), r.bell); {
		found = r.round(ctx)
	}
}

// round publishes what is there, as far as this dispatcher is on duty. It returns false when there was nothing, or no success.
func (r *relay) round(ctx context.Context) (found bool) {
	for r.duty(ctx) {
		n, err := r.publishRows(ctx)
		if err != nil && ctx.Err() == nil {
			r.metrics.relayErrors.Inc()
			r.log.Warn("outcome events could not be published; they wait in the outbox", "error", err)
			return false
		}
		if n < relayRows {
			return found || n > 0
		}
		found = true
	}
	return found
}

// duty takes or renews the duty in time. Not on duty, it asks no more often than it would renew.
func (r *relay) duty(ctx context.Context) bool {
	before := time.Now()
	if before.Before(r.renewAt) {
		return r.onDuty && before.Before(r.until)
	}
	call, cancel := context.WithTimeout(ctx, dutyRenewal)
	defer cancel()
	ok, err := r.store.OnDuty(call, relayDuty, r.owner, dutyLease)
	r.report("duty", err)
	if err != nil {
		return r.onDuty && before.Before(r.until)
	}
	if ok != r.onDuty {
		r.log.Debug("the duty of relaying changed", "on_duty", ok)
	}
	r.onDuty, r.renewAt = ok, before.Add(jittered(dutyRenewal))
	r.until = before.Add(dutyLease - ackTimeout - time.Second)
	return r.onDuty
}

// publishRows publishes the oldest rows one after the other and forgets those that are on the broker.
func (r *relay) publishRows(ctx context.Context) (n int, err error) {
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	rows, err := r.store.Events(call, relayRows)
	r.report("events", err)
	if err != nil {
		return 0, err
	}
	r.metrics.relayLag.Set(float64(len(rows)))
	var done []int64
	for _, row := range rows {
		if !time.Now().Before(r.until) {
			break
		}
		if err = r.publishRow(ctx, row); err != nil {
			break
		}
		done = append(done, row.ID)
	}
	if len(done) > 0 {
		fault.At(fault.RelayDone)
		forget, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		err = errors.Join(err, r.store.Forget(forget, done))
	}
	return len(done), err
}

// publishRow returns once every event of the row is on the broker.
func (r *relay) publishRow(ctx context.Context, row intents.EventRow) error {
	acks := make([]jetstream.PubAckFuture, 0, len(row.Events))
	for _, event := range row.Events {
		msg, err := eventMessage(event)
		if err != nil {
			r.log.Error("an outcome event cannot be published and is left out", "row", row.ID, "error", err)
			continue
		}
		ack, err := r.js.PublishMsgAsync(msg)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	deadline := time.NewTimer(ackTimeout)
	defer deadline.Stop()
	for _, ack := range acks {
		select {
		case <-ack.Ok():
			r.metrics.published.Inc()
		case err := <-ack.Err():
			return err
		case <-deadline.C:
			return fmt.Errorf("the broker did not acknowledge within %v", ackTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// eventMessage addresses an event. Its id is the broker's message id, so that a repeat within the window is dropped.
func eventMessage(event json.RawMessage) (*nats.Msg, error) {
	var address struct{ ID, Caller, Channel, What string }
	if err := json.Unmarshal(event, &address); err != nil {
		return nil, err
	}
	msg := nats.NewMsg(wire.EventSubject(token(address.Caller), token(address.Channel), wire.What(token(address.What))))
	msg.Data = event
	msg.Header.Set(nats.MsgIdHdr, address.ID)
	return msg, nil
}

// token makes one subject token of a name; names that could not be one are "unknown".
func token(name string) string {
	if name == "" {
		return "unknown"
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == '.' || c == '*' || c == '>' {
			return "unknown"
		}
	}
	return name
}

// finish publishes what is left and gives the duty up.
func (r *relay) finish(ctx context.Context) {
	for r.round(ctx) && ctx.Err() == nil {
	}
	if r.onDuty && ctx.Err() == nil {
		_, err := r.store.OnDuty(ctx, relayDuty, r.owner, 0)
		r.report("duty", err)
	}
}
