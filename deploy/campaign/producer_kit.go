package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

// told is one try to tell a fact, and how it ended.
type told struct {
	of         identity
	variant    variant
	sort       sort
	way        way
	poison     poison
	to         string // hash of the recipient
	begun, end time.Time

	stored    bool   // the broker said that it has it
	seq       uint64 // and where
	verdict   wire.Verdict
	intent    string // that the verdict names
	code      string
	cancelled wire.CancelResult
	err       string // whether it took effect is not known; "" for all that has an answer
}

// answered reports whether the producer may stop telling.
func (t told) answered() bool { return t.err == "" }

// producers tell n facts.
type producers struct {
	broker string
	rnd    *rand.Rand
	plan   []telling

	mu      sync.Mutex
	log     []told
	mistake map[string]int
}

func newProducers(broker string, p *peers, rnd *rand.Rand, n int) *producers {
	return &producers{broker: broker, rnd: rnd, plan: plan(p, rnd, time.Now(), n), mistake: map[string]int{}}
}

const (
	connectionsEach = 3 // of each caller
	tellersEach     = 8 // at once, on one connection
	tryPatience     = 2 * time.Second
)

// run tells everything, spread over the time as planned, and insists (the broker and the dispatchers may be down) until each telling has
// an answer or ctx ends.
func (p *producers) run(ctx context.Context, over time.Duration) error {
	begin := time.Now()
	together, ctx := errgroup.WithContext(ctx)
	queues := map[string]chan telling{}
	for _, caller := range callers {
		queues[caller] = make(chan telling, len(p.plan))
		for range connectionsEach {
			c, err := p.connect(ctx, caller)
			if err != nil {
				return err
			}
			together.Go(func() error { return c.serve(ctx, queues[caller]) })
		}
	}
	together.Go(func() error {
		for _, t := range p.plan {
			if !pause(ctx, time.Until(begin.Add(time.Duration(t.at*float64(over))))) {
				break
			}
			queues[t.of.caller] <- t
		}
		for _, q := range queues {
			close(q)
		}
		return nil
	})
	return together.Wait()
}

// connection is one of a caller's.
type connection struct {
	p      *producers
	nc     *nats.Conn
	js     jetstream.JetStream
	client *client.Client
}

func (p *producers) connect(ctx context.Context, caller string) (*connection, error) {
	nc, err := nats.Connect(p.broker, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	c, err := client.New(nc, caller)
	return &connection{p, nc, js, c}, err
}

// serve tells what is in the queue until that is closed and empty, or ctx ends.
func (c *connection) serve(ctx context.Context, queue <-chan telling) error {
	together, ctx := errgroup.WithContext(ctx)
	for range tellersEach {
		together.Go(func() error {
			for t := range queue {
				if err := c.insist(ctx, t); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return together.Wait()
}

// insist tries until there is an answer.
func (c *connection) insist(ctx context.Context, t telling) error {
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, time.Second) {
		try, err := c.try(ctx, t)
		if err != nil {
			return fmt.Errorf("telling %v: %w", t.of, err)
		}
		c.p.note(t, try)
		if try.answered() {
			return nil
		}
		pause(ctx, wait)
	}
	return nil
}

// try says it once. The error is a mistake of this program's.
func (c *connection) try(ctx context.Context, t telling) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	d := told{of: t.of, variant: t.variant, sort: t.sort, way: t.way, poison: t.poison, to: hash([]byte(t.request.Recipient)), begun: time.Now()}
	var err error
	switch t.way {
	case publishing:
		var s client.Stored
		if s, err = c.client.Publish(ctx, t.of.channel, t.request); err == nil {
			d.stored, d.seq = true, s.Sequence
		}
	case submitting:
		var r client.Reply
		if r, err = c.client.Submit(ctx, t.of.channel, t.request); err == nil {
			d.verdict, d.intent, d.code = r.Verdict, r.Intent, r.Code
		}
	case cancelling:
		var r client.Cancelled
		if r, err = c.client.Cancel(ctx, t.of.channel, t.request.Key, t.of.revision); err == nil {
			d.cancelled, d.intent = r.Result, r.Intent
		}
	case smuggling:
		var msg *nats.Msg
		if msg, err = t.brew(); err != nil {
			return d, err
		}
		var ack *jetstream.PubAck
		if ack, err = c.js.PublishMsg(ctx, msg); err == nil {
			d.stored, d.seq = true, ack.Sequence
		}
	}
	d.end = time.Now()
	var refusal *wire.Refusal
	if errors.As(err, &refusal) && !errors.Is(err, client.ErrUnavailable) && refusal.Code != wire.CodeInternal {
		return d, err // the client would not even send it
	}
	if err != nil && !tooLarge(err) {
		d.err = err.Error()
	}
	return d, nil
}

// tooLarge reports whether the broker refused the message for its size: that is an answer, and nothing was stored.
func tooLarge(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.ErrorCode == 10054 || refused.ErrorCode == 10097) // message, headers
}

// note keeps a try. What is said wrong on purpose counts once it has arrived.
func (p *producers) note(t telling, d told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, d)
	switch {
	case !d.answered():
	case t.poison != "":
		p.mistake[string(t.poison)]++
	case t.sort == disputed && t.variant == "b", t.sort == stale, t.sort == bombed:
		p.mistake[string(t.sort)]++
	case t.sort == storm && t.variant == "b": // told once in a storm
		p.mistake[string(storm)]++
	}
}

// told is their log.
func (p *producers) told() []told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]told(nil), p.log...)
}

// mishaps counts what they did wrong on purpose, by kind: poison, storms, conflicts.
func (p *producers) mishaps() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.mistake)
}
