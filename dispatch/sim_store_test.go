package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// simRow is one intent of the simulation.
type simRow struct {
	intents.Claim
	state     intents.State
	owner     string
	token     uuid.UUID // of the claim call that claimed it; zero for a takeover's claim
	takeover  bool      // SENDING by a takeover, which sends nothing
	lease     time.Time
	due       time.Time
	duplicate int
	accepted  bool
	written   map[simWrite]intents.State // settlements
	lost      map[int32]string           // generation: owner whose lease ran out
	heard     map[int32]bool             // generation of evidence: it settled the intent
	used      []simUse                   // attempts that may have shown the provider the key
	calls     []*simCall
}

type simUse struct{ began, ended time.Time }

type simWrite struct {
	generation int32
	owner      string
	tried      bool
}

// simWorld is the truth that the dispatchers of one history share: the store, and the providers with their ledger. The fake clock
// is the database's. What breaks a promise is noted when it happens.
type simWorld struct {
	mu     sync.Mutex
	rows   []*simRow
	byID   map[uuid.UUID]*simRow
	pauses map[string]*simPause
	faulty bool
	broken []string
	late   sync.WaitGroup // requests that are still in the network
}

type simPause struct {
	until time.Time
	n     int
	scope string
	code  string
}

func (w *simWorld) breaks(r *simRow, format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("%s, intent %d, generation %d, %s: ", r.Identity.Channel, slices.Index(w.rows, r), r.Generation, r.state)+
		fmt.Sprintf(format, args...))
}

func (w *simWorld) admit(channel string, c channels.Contract, ttl, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, now := len(w.rows), time.Now()
	r := &simRow{state: intents.Pending, due: now.Add(wait), written: map[simWrite]intents.State{}, lost: map[int32]string{}, heard: map[int32]bool{}}
	r.Claim = intents.Claim{
		ID: uuid.New(), Identity: dedup.Identity{Caller: "sim", Channel: channel, Key: dedup.Key(fmt.Sprint("k", n))}, Guarantee: c.Guarantee,
		Recipient: "r", Rendered: fmt.Append(nil, "bytes ", n), EffectKey: fmt.Sprint("effect-", n), CollapseKey: fmt.Sprint("collapse-", n),
		Priority: intents.Normal, CreatedAt: now, DueSince: now.Add(wait), KeyScope: c.KeyScope,
	}
	if ttl > 0 {
		r.ExpiresAt = now.Add(ttl)
	}
	w.rows = append(w.rows, r)
	w.byID[r.ID] = r
}

// write is the only way to another state. It holds I2, I3 and I8.
func (w *simWorld) write(r *simRow, generation int32, to intents.State) {
	if r.state.Terminal() {
		w.breaks(r, "I3: a terminal state becomes %s", to)
	}
	if generation != r.Generation {
		w.breaks(r, "I8: a write of generation %d changes it to %s", generation, to)
	}
	if to == intents.Succeeded && w.applied(r) == 0 {
		w.breaks(r, "I2: succeeded, and the provider has nothing")
	}
	r.state, r.owner, r.takeover, r.lease = to, "", false, time.Time{}
}

func (w *simWorld) hold(r *simRow, owner string, token uuid.UUID, lease time.Duration) intents.Claim {
	r.state, r.owner, r.token, r.takeover = intents.Sending, owner, token, token == uuid.Nil
	r.Generation++
	r.ClaimedAt, r.lease = time.Now(), time.Now().Add(lease)
	return r.Claim
}

func (w *simWorld) claim(req intents.ClaimRequest) (out []intents.Claim) {
	now := time.Now()
	for _, r := range w.rows {
		if r.Identity.Channel == req.Channel && r.token == req.Token && r.state == intents.Sending && r.owner == req.Owner && r.lease.After(now) {
			r.ClaimedAt, r.lease = now, now.Add(req.Lease)
			out = append(out, r.Claim)
		}
	}
	if p := w.pauses[req.Channel]; len(out) > 0 || p != nil && p.until.After(now) {
		return out
	}
	due := slices.Clone(w.rows)
	slices.SortStableFunc(due, func(a, b *simRow) int { return cmp.Or(a.due.Compare(b.due), 0) })
	for _, r := range due {
		if len(out) == req.N {
			break
		}
		if r.Identity.Channel != req.Channel || !w.isDue(r, now) {
			continue
		}
		if !r.Doubt {
			r.FirstUsedAt = now
			for _, u := range r.used {
				if u.ended.After(now.Add(-req.KeyWindow-req.Lease)) && u.began.Before(r.FirstUsedAt) {
					r.FirstUsedAt = u.began
				}
			}
		}
		out = append(out, w.hold(r, req.Owner, req.Token, req.Lease))
	}
	return out
}

func (w *simWorld) isDue(r *simRow, now time.Time) bool {
	return r.state == intents.Pending && !r.due.After(now) && (r.ExpiresAt.IsZero() || r.ExpiresAt.After(now))
}

func (w *simWorld) settle(s intents.Settlement) intents.Settled {
	r := w.byID[s.ID]
	name := simWrite{s.Generation, s.Owner, !s.NoAttempt}
	if s.Generation != r.Generation || s.Owner != r.owner || r.state != intents.Sending {
		state, written := r.written[name]
		if !written {
			return intents.Settled{ID: s.ID, State: r.state, Fenced: true}
		}
		return intents.Settled{ID: s.ID, State: state}
	}
	t := s.Transition
	to, kept := t.To(), r.accepted && (t.To() == intents.Pending || t.To() == intents.UnknownState)
	if kept {
		to = intents.Succeeded
	}
	if t.PossibleDuplicate() && !kept {
		r.duplicate++
	}
	if !s.NoAttempt && s.Outcome.Phase() != channels.PhaseConnect {
		r.used = append(r.used, simUse{s.Ended.Add(-s.Took), s.Ended})
	}
	if t.Counted() {
		r.Attempts++
	}
	r.Doubt = to != intents.Succeeded && (r.Doubt || t.Doubt())
	r.due = time.Now().Add(t.Delay())
	w.write(r, s.Generation, to)
	r.written[name] = to
	return intents.Settled{ID: s.ID, State: to}
}

func (w *simWorld) witness(s intents.Settlement) intents.Settled {
	r := w.byID[s.ID]
	if settled, before := r.heard[s.Generation]; before {
		return intents.Settled{ID: s.ID, State: r.state, Fenced: !settled}
	}
	state := r.state
	if state == intents.Sending && r.takeover {
		state = intents.UnknownState
	}
	whole := !r.accepted && r.lost[s.Generation] == s.Owner && r.Generation == s.Generation+1 && r.duplicate == 0
	to, ok := intents.Testimony(state, r.Doubt, whole, s.Outcome)
	r.heard[s.Generation] = ok
	if !ok {
		r.accepted = r.accepted || s.Outcome.Result() == channels.Accepted && !r.state.Terminal()
		return intents.Settled{ID: s.ID, State: r.state, Fenced: true}
	}
	r.Doubt, r.due = false, time.Now().Add(s.Outcome.Wait())
	w.write(r, r.Generation, to)
	return intents.Settled{ID: s.ID, State: to}
}

func (w *simWorld) takeOver(names []string, owner string, lease time.Duration, n int) (out []intents.Claim) {
	now := time.Now()
	for _, r := range w.rows {
		if r.state != intents.Sending || !slices.Contains(names, r.Identity.Channel) {
			continue
		}
		switch {
		case r.lease.After(now):
			if r.takeover && r.owner == owner {
				out = append(out, r.Claim)
			}
		case n > 0:
			n--
			r.lost[r.Generation] = r.owner
			r.Takeovers++
			r.Doubt = true
			out = append(out, w.hold(r, owner, uuid.Nil, lease))
		}
	}
	return out
}

func (w *simWorld) sweep() (n int) {
	for _, r := range w.rows {
		if r.state != intents.Pending || r.ExpiresAt.IsZero() || r.ExpiresAt.After(time.Now()) {
			continue
		}
		n++
		to := intents.Expired
		if r.Doubt {
			to = intents.UnknownState
		}
		w.write(r, r.Generation, to)
	}
	return n
}

func (w *simWorld) pause(channel, scope, code string, base, limit time.Duration) {
	p := w.pauses[channel]
	if p == nil {
		p = &simPause{}
		w.pauses[channel] = p
	}
	if p.until.After(time.Now()) {
		return
	}
	p.until, p.scope, p.code = time.Now().Add(min(base<<p.n, limit)), scope, code
	p.n = min(p.n+1, 8)
}

// simLink is one dispatcher's way to the store, with the faults of its host.
type simLink struct {
	Store // what the core does not call
	world *simWorld
	host  *simHost
}

func simCallStore[T any](ctx context.Context, l *simLink, do func(w *simWorld) T) (out T, err error) {
	err = l.host.call(ctx, func() {
		l.world.mu.Lock()
		defer l.world.mu.Unlock()
		out = do(l.world)
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

func (l *simLink) Clock(ctx context.Context) (time.Time, error) {
	return simCallStore(ctx, l, func(*simWorld) time.Time { return time.Now() })
}

func (l *simLink) Claim(ctx context.Context, req intents.ClaimRequest) ([]intents.Claim, error) {
	return simCallStore(ctx, l, func(w *simWorld) []intents.Claim { return w.claim(req) })
}

func (l *simLink) Settle(ctx context.Context, all []intents.Settlement, _ []uuid.UUID) ([]intents.Settled, error) {
	return simCallStore(ctx, l, func(w *simWorld) (out []intents.Settled) {
		for _, s := range all {
			out = append(out, w.settle(s))
		}
		return out
	})
}

func (l *simLink) Witness(ctx context.Context, s intents.Settlement) (intents.Settled, error) {
	return simCallStore(ctx, l, func(w *simWorld) intents.Settled { return w.witness(s) })
}

func (l *simLink) TakeOver(ctx context.Context, names []string, owner string, lease time.Duration, n int) ([]intents.Claim, error) {
	return simCallStore(ctx, l, func(w *simWorld) []intents.Claim { return w.takeOver(names, owner, lease, n) })
}

func (l *simLink) Sweep(ctx context.Context, _ int) (int, error) {
	return simCallStore(ctx, l, func(w *simWorld) int { return w.sweep() })
}

func (l *simLink) DueChannels(ctx context.Context) ([]string, error) {
	return simCallStore(ctx, l, func(w *simWorld) (out []string) {
		for _, r := range w.rows {
			if p := w.pauses[r.Identity.Channel]; p != nil && p.until.After(time.Now()) {
				continue
			}
			if w.isDue(r, time.Now()) && !slices.Contains(out, r.Identity.Channel) {
				out = append(out, r.Identity.Channel)
			}
		}
		return out
	})
}

func (l *simLink) Pause(ctx context.Context, channel, scope, code, _ string, base, limit time.Duration) error {
	_, err := simCallStore(ctx, l, func(w *simWorld) bool { w.pause(channel, scope, code, base, limit); return true })
	return err
}

func (l *simLink) Resume(ctx context.Context, channel string) error {
	_, err := simCallStore(ctx, l, func(w *simWorld) bool { delete(w.pauses, channel); return true })
	return err
}

func (l *simLink) ChannelStates(ctx context.Context) ([]intents.ChannelState, error) {
	return simCallStore(ctx, l, func(w *simWorld) (out []intents.ChannelState) {
		for name, p := range w.pauses {
			out = append(out, intents.ChannelState{Channel: name, Paused: p.until.After(time.Now()), PausedUntil: p.until, Code: p.code, KeyScope: p.scope})
		}
		return out
	})
}
