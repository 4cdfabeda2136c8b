package main

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents/fault"
)

// scene is a town in which dispatchers die at a fault point: one request for each channel, each channel with its guarantee.
type scene struct {
	*town
	db    *pgx.Conn
	js    jetstream.JetStream
	asked map[string]client.Request // the last one, by channel
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{town: newTown(t), asked: map[string]client.Request{}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc, err := nats.Connect(s.broker, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if s.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	if err := dispatch.EnsureStreams(ctx, s.js, true); err != nil {
		t.Fatal(err)
	}
	if s.db, err = pgx.Connect(ctx, s.databaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close(context.Background()) })
	return s
}

// number runs a query for one number, on the scene's own connection.
func (s *scene) number(sql string, args ...any) (n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.db.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s *scene) exec(sql string, args ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if _, err := s.db.Exec(ctx, sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// ask publishes a request for the channel. The streams are there from the beginning, so no dispatcher need be.
func (s *scene) ask(channel string, change ...func(*client.Request)) {
	s.t.Helper()
	r, again := s.asked[channel]
	if !again {
		r = s.request(channel, "8841")
	}
	for _, c := range change {
		c(&r)
	}
	s.asked[channel] = r
	s.tell(channel, r)
}

// admitted has a dispatcher that sends nothing take in a request for each channel.
func (s *scene) admitted(change ...func(*client.Request)) {
	s.t.Helper()
	for _, channel := range s.channels {
		s.ask(channel, change...)
	}
	d := s.serveAs(append(s.env(), "ONEBELL_ROLES=intake"))
	eventually(s.t, "every request is admitted and acknowledged", func() bool {
		return s.number(`select count(*) from intents where state = 'pending'`) == len(s.channels) && s.waiting() == 0
	})
	d.kill()
}

// waiting is how many requests the broker still has.
func (s *scene) waiting() int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	stream, err := s.js.Stream(ctx, wire.RequestStream)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(stream.CachedInfo().State.Msgs)
}

// pause keeps the channels from being claimed, as an operator's pause does.
func (s *scene) pause(channels ...string) {
	s.t.Helper()
	s.exec(`insert into channel_states (channel, paused_until, code, reason, since, key_scope, pauses)
		select c, 'infinity', 'test', 'held by a test', now(), '', 1 from unnest($1::text[]) as c`, channels)
}

// resume ends every pause.
func (s *scene) resume() {
	s.t.Helper()
	s.exec(`delete from channel_states`)
}

// byAgenda lists the channels whose requests are never claimed at admission.
func (s *scene) byAgenda() []string {
	return slices.DeleteFunc(slices.Clone(s.channels), func(c string) bool { return c == "keyed" })
}

// bury does at once what the time after a death would do: leases and duties of the dead are over, and what they did not acknowledge is
// delivered again. Nobody else may be alive.
func (s *scene) bury() {
	s.t.Helper()
	s.lapse()
	s.exec(`update duties set lease_until = now()`)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.js.DeleteConsumer(ctx, wire.RequestStream, dispatch.RequestConsumerName); err != nil { // the next dispatcher makes it anew
		s.t.Fatal(err)
	}
}

// dieEach has a dispatcher die at the point for each channel in turn, on what begin sets up for it.
func (s *scene) dieEach(at fault.Point, begin func(channel string) *planned) {
	s.t.Helper()
	for _, channel := range s.channels {
		begin(channel).dies(at)
	}
}
