package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/onebell/onebell/intents"
)

// What a call takes, and the lease that follows from the timeout.
const (
	compareLeast = 5 * time.Millisecond
	compareMost  = 60 * time.Millisecond
)

var compareLease = intents.LeaseFor(compareTimeout)

// duel is one run of a comparison.
type duel struct {
	round
	channel  string
	deaths   map[string][]time.Time // of the killed, by the name under which they claimed; "" for those who had no time to tell it
	kills    int
	serving  int // of the killed, how many served
	killing  time.Duration
	lastKill time.Time
}

func (c comparison) once(ctx context.Context, w *worker, channel string, seed uint64) (t tally, err error) {
	d := &duel{channel: channel, deaths: map[string][]time.Time{}, round: round{
		seed: seed, worker: w, record: &record{}, lease: compareLease, dir: filepath.Join(w.dir, fmt.Sprintf("compare-%s-%d", channel, seed)),
	}}
	defer d.down()
	if err := d.up(ctx, c.mails); err != nil {
		return t, err
	}
	if err := d.fight(ctx, c.kills); err != nil {
		return t, err
	}
	return d.count(ctx)
}

func (d *duel) up(ctx context.Context, facts int) (err error) {
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	if err := d.worker.db.fresh(ctx, fmt.Sprintf("compare_%s_%d", d.channel, d.seed)); err != nil {
		return err
	}
	if d.broker, err = startBroker(d.worker.root, d.dir); err != nil {
		return err
	}
	d.peers, err = newPeersWith(d.rnd("peers"), manners{timeout: compareTimeout, window: compareWindow, least: compareLeast, most: compareMost})
	if err != nil {
		return err
	}
	d.peers.trouble(mishaps{d.channel: {replyLost: compareLost}})
	d.producers = newProducers(d.broker.url(), d.peers, d.rnd("producers"), 0)
	d.producers.plan = planReceipts(d.peers, d.rnd("facts"), d.channel, facts)
	for range compareTeam {
		d.slots = append(d.slots, &slot{binary: d.worker.binary, lease: d.lease, record: d.record, env: append(d.peers.env(),
			fmt.Sprintf("ONEBELL_CHANNEL_MAIL_CONCURRENCY=%d", compareSenders), fmt.Sprintf("ONEBELL_CHANNEL_KEYED_CONCURRENCY=%d", compareSenders),
			"ONEBELL_NATS_URL=nats://"+brokerUser+":"+brokerPassword+"@"+d.broker.addr(), "ONEBELL_DATABASE_URL="+d.worker.db.url(),
			"ONEBELL_SECRET="+campaignSecret, "ONEBELL_ADMIN_ADDR=127.0.0.1:0", "ONEBELL_LOG_LEVEL=info", "ONEBELL_LOG_FORMAT=json")})
	}
	return nil
}

// planReceipts plans n facts of one channel: 70 % told once, 15 % twice, 15 % three times.
func planReceipts(p *peers, rnd *rand.Rand, channel string, n int) []telling {
	pl := &planner{peers: p, rnd: rnd, now: time.Now()}
	for i := range n {
		times := 1
		if at := i % 20; at < 6 {
			times = 2 + at%2
		}
		of := identity{callers[0], channel, fmt.Sprintf("receipt:%d", i), 0}
		first := telling{at: rnd.Float64(), of: of, variant: "a", way: publishing, request: pl.request(of, "a", i, false)}
		for j := range times {
			if t := first; j == 0 || rnd.IntN(2) == 0 {
				pl.list = append(pl.list, t) // a repeat at once
			} else {
				t.at = min(1, first.at+0.2*rnd.Float64())
				pl.list = append(pl.list, t)
			}
		}
	}
	inOrder(pl.list)
	return pl.list
}

// fight tells everything while dispatchers are killed.
func (d *duel) fight(ctx context.Context, least int) error {
	for _, s := range d.slots {
		if err := d.await(ctx, s); err != nil {
			return err
		}
	}
	telling := make(chan error, 1)
	go func() { telling <- d.producers.run(ctx, compareTelling) }()
	rnd, begin, told := d.rnd("kills"), time.Now(), false
	for d.kills < least || !told {
		if !pause(ctx, between(rnd, killEarliest, killLatest)) {
			return ctx.Err()
		}
		if err := d.kill(); err != nil {
			return err
		}
		select {
		case err := <-telling:
			if err != nil {
				return err
			}
			told = true
		default:
		}
	}
	d.killing = d.lastKill.Sub(begin)
	return nil
}

// await starts a dispatcher and waits until it serves.
func (d *duel) await(ctx context.Context, s *slot) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := s.start(life{})
	if err != nil {
		return err
	}
	_, err = p.serves(ctx)
	return err
}

// kill ends the dispatcher that was started first and starts another in its place.
func (d *duel) kill() error {
	s := d.slots[d.kills%len(d.slots)]
	victim := s.lives[len(s.lives)-1]
	d.lastKill = time.Now()
	if !victim.kill() {
		return fmt.Errorf("a dispatcher ended before it was killed:\n%s", victim.log.tail())
	}
	d.kills++
	owner := victim.log.owner()
	d.deaths[owner] = append(d.deaths[owner], d.lastKill)
	if victim.log.admin() != "" {
		d.serving++
	}
	d.record.add("F1 kill anywhere")
	_, err := s.start(life{})
	return err
}
