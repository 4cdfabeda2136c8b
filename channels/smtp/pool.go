package smtp

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of one connection's life. Servers close long or busy ones on their side, so ours ends first.
const (
	maxSessionAge   = 5 * time.Minute
	maxSessionMails = 100
	trustIdle       = time.Second     // idle for longer: ask before use
	probeTimeout    = 5 * time.Second // for that question
	quitTimeout     = time.Second
)

// pool keeps sessions between mails. A session is either in the pool or in the hands of one goroutine.
type pool struct {
	maxIdle     int
	idleTimeout time.Duration

	mu      sync.Mutex
	idle    []*session // the last one used stands last
	closed  bool
	leaving sync.WaitGroup // timers and closers that are taking leave
}

// take returns an idle session that answers, or nil. Asking ends before that time, and when ctx is done.
func (p *pool) take(ctx context.Context, before time.Time) *session {
	s := p.pop()
	if s == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, s.wire.kill)
	good := s.client.Text.R.Buffered() == 0 && s.answers(before)
	if !stop() || !good {
		s.cut()
		p.drop() // what holds for this one, a restarted server say, most likely holds for all
		return nil
	}
	return s
}

func (p *pool) pop() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if s.idle.Stop() {
			p.leaving.Done()
			return s
		}
		// Its timer is running and will find it gone; the timer closes it all the same.
	}
	return nil
}

// answers asks with RSET, which also clears what is left of a refused transaction.
func (s *session) answers(before time.Time) bool {
	if !s.dirty && time.Since(s.used) < trustIdle {
		return true
	}
	s.wire.step(earlier(time.Now().Add(probeTimeout), before))
	if s.client.Reset() != nil {
		return false
	}
	s.dirty = false
	return true
}

// put takes a session back, or takes leave of it before that time.
func (p *pool) put(s *session, before time.Time) {
	if s.mails >= maxSessionMails || time.Since(s.born) >= maxSessionAge || !p.keep(s) {
		s.quit(earlier(time.Now().Add(quitTimeout), before))
	}
}

func (p *pool) keep(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.maxIdle {
		return false
	}
	p.leaving.Add(1)
	s.idle = time.AfterFunc(p.idleTimeout, func() {
		defer p.leaving.Done()
		p.forget(s)
		s.quit(time.Now().Add(quitTimeout))
	})
	p.idle = append(p.idle, s)
	return true
}

func (p *pool) forget(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(other *session) bool { return other == s })
}

// drop cuts every idle session.
func (p *pool) drop() {
	for s := p.pop(); s != nil; s = p.pop() {
		s.cut()
	}
}

// close takes leave of the idle sessions and keeps none from now on. It waits, for at most a little more than quitTimeout.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for s := p.pop(); s != nil; s = p.pop() {
		p.leaving.Go(func() { s.quit(time.Now().Add(quitTimeout)) })
	}
	p.leaving.Wait()
}
