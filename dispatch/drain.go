package dispatch

import (
	"context"
	"errors"
	"time"
)

// Times that Drain gives its later steps, on top of the grace period of sends.
const (
	lastClaim = 2 * time.Second  // for a call that claims, after claiming ended
	endClaims = 5 * time.Second  // for two of those, one after the other
	cutSends  = 3 * time.Second  // for a send to end after it was told to
	lastWrite = 10 * time.Second // for settlements
	lastRelay = 5 * time.Second  // for events
)

// Drain ends the dispatcher so that nothing stays SENDING: it takes no more requests, hands unstarted claims back, lets sends
// finish within the grace period and cuts them off then, settles, relays events, and returns. When ctx ends first it leaves
// at once, and what is still claimed is left to its lease; the error says so.
func (d *Dispatcher) Drain(ctx context.Context) error {
	d.health.set("drain", "the dispatcher is leaving")
	d.log.Info("dispatcher leaving")
	defer d.abandon()
	defer context.AfterFunc(ctx, d.abandon)()

	for _, l := range d.lanes {
		l.stopping.Store(true)
	}
	d.intaking.stop()
	clean := leave(ctx, &d.intaking.wg)
	d.claiming.stop()
	d.log.Debug("intake ended, nothing more is claimed")
	clean = d.endClaims(ctx) && clean
	for _, l := range d.lanes {
		l.emptyDirect()
	}
	clean = d.finishSends(ctx) && clean
	clean = d.finishWrites(ctx) && clean
	if !clean || ctx.Err() != nil {
		return errors.New("dispatch: the time for leaving was too short; what is still claimed will be taken over when its lease ends")
	}
	d.log.Info("dispatcher left")
	return nil
}

// endClaims waits for claims that are being made. A database that hangs must not use up the time that the sends have.
func (d *Dispatcher) endClaims(ctx context.Context) (clean bool) {
	last, cancel := context.WithTimeout(ctx, endClaims)
	defer cancel()
	return leave(last, &d.claiming.wg)
}

// finishSends waits for running sends, and cuts them off when the grace period ends.
func (d *Dispatcher) finishSends(ctx context.Context) (clean bool) {
	grace, cancel := context.WithTimeout(ctx, d.cfg.Grace)
	defer cancel()
	defer context.AfterFunc(grace, d.sending.stop)()
	last, cancelLast := context.WithTimeout(ctx, d.cfg.Grace+cutSends)
	defer cancelLast()
	clean = true
	for _, l := range d.lanes {
		clean = leave(last, &l.running) && clean
	}
	return clean
}

// finishWrites settles what is left and relays it.
func (d *Dispatcher) finishWrites(ctx context.Context) (clean bool) {
	last, cancel := context.WithTimeout(ctx, lastWrite)
	defer cancel()
	stop := context.AfterFunc(last, d.writing.stop)
	d.settler.stop()
	clean = stop()
	d.sending.stop()
	clean = leave(ctx, &d.sending.wg) && clean
	if d.cfg.Dispatch && clean {
		relaying, cancel := context.WithTimeout(ctx, lastRelay)
		defer cancel()
		d.relay.finish(relaying)
	}
	d.writing.stop()
	return clean
}

// abandon stops everything at once.
func (d *Dispatcher) abandon() {
	d.intaking.stop()
	d.claiming.stop()
	d.sending.stop()
	d.writing.stop()
}
