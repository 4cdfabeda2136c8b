package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Channels of a campaign.
const (
	mailChannel  = "mail"
	keyedChannel = "keyed"
	plainChannel = "plain"
	pushChannel  = "push"
)

// keyWindow is how long the keyed receiver remembers, and what the dispatchers are told of it.
const keyWindow = 25 * time.Second

// peers are the providers: real servers on sockets of this machine, which misbehave as told and keep a ledger. Their methods may be
// called concurrently.
type peers struct {
	seed    uint64
	canary  string // stands in every recipient and every content, and nowhere else
	ledger  ledger
	manners manners
	gone    chan struct{} // closed by close

	mail         *mailPeer
	keyed, plain *hookPeer
	push         *pushPeer

	mu    sync.Mutex
	rates mishaps
	calls map[string]int // by channel and recipient
}

// manners are how the providers behave when they behave.
type manners struct {
	timeout     time.Duration // of the dispatchers' attempts; not the providers' own
	window      time.Duration // for which the keyed receiver remembers
	least, most time.Duration // a call takes; zero: none
}

func newPeers(rnd *rand.Rand) (*peers, error) {
	return newPeersWith(rnd, manners{timeout: attemptTimeout, window: keyWindow})
}

func newPeersWith(rnd *rand.Rand, m manners) (_ *peers, err error) {
	p := &peers{
		seed: rnd.Uint64(), canary: fmt.Sprintf("canary%08x", rnd.Uint32()), manners: m,
		gone: make(chan struct{}), calls: map[string]int{},
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.mail, err = newMailPeer(p); err != nil {
		return nil, err
	}
	if p.keyed, err = newHookPeer(p, keyedChannel); err != nil {
		return nil, err
	}
	if p.plain, err = newHookPeer(p, plainChannel); err != nil {
		return nil, err
	}
	p.push, err = newPushPeer(p)
	return p, err
}

// channels lists the channels that env configures.
func (p *peers) channels() []string {
	return []string{mailChannel, keyedChannel, plainChannel, pushChannel}
}

// env is what a dispatcher is configured with to reach them: ONEBELL_CHANNELS and every channel's variables.
func (p *peers) env() []string {
	env := []string{
		"ONEBELL_CHANNELS=mail:smtp,keyed:webhook,plain:webhook,push:fcm",
		"ONEBELL_CHANNEL_MAIL_ADDR=" + p.mail.addr, "ONEBELL_CHANNEL_MAIL_FROM=shop@example.org", "ONEBELL_CHANNEL_MAIL_TLS=none",
		"ONEBELL_CHANNEL_KEYED_DEDUP=idempotency-key", "ONEBELL_CHANNEL_KEYED_KEY_WINDOW=" + p.manners.window.String(),
		"ONEBELL_CHANNEL_KEYED_ALLOW_PRIVATE=127.0.0.0/8", "ONEBELL_CHANNEL_PLAIN_ALLOW_PRIVATE=127.0.0.0/8",
		"ONEBELL_CHANNEL_PUSH_ENDPOINT=" + p.push.url, "ONEBELL_CHANNEL_PUSH_CREDENTIALS_FILE=" + p.push.credentials,
	}
	for _, name := range []string{"MAIL", "KEYED", "PLAIN", "PUSH"} {
		env = append(env, "ONEBELL_CHANNEL_"+name+"_TIMEOUT="+p.manners.timeout.String(), "ONEBELL_CHANNEL_"+name+"_CONCURRENCY=8")
	}
	return env
}

// recipient is the address that belongs to an intent. One that is gone is refused for good, whenever it is tried.
func (p *peers) recipient(of identity, gone bool) string {
	name := fmt.Sprintf("%s-%s-%s", p.canary, of.caller, strings.ReplaceAll(of.key, ":", "-"))
	if of.channel != pushChannel { // there a newer revision replaces what the same device shows
		name += fmt.Sprintf("-%d", of.revision)
	}
	if gone {
		name += goneMark
	}
	switch of.channel {
	case keyedChannel:
		return p.keyed.url + name
	case plainChannel:
		return p.plain.url + name
	case pushChannel:
		return name
	}
	return name + "@example.org"
}

// content is what an intent says, with the mark by which the ledger knows it.
func (p *peers) content(of identity, v variant) json.RawMessage {
	switch of.channel {
	case pushChannel:
		return fmt.Appendf(nil, `{"title":"Your order","body":%q,"data":{"for":%q}}`, mark(of, v), p.canary)
	case mailChannel:
		return fmt.Appendf(nil, `{"subject":"Your order","text":"%s\nfor %s"}`, mark(of, v), p.canary)
	}
	return fmt.Appendf(nil, `{"type":"order.paid","data":{"mark":%q,"for":%q}}`, mark(of, v), p.canary)
}

// goneMark ends the name of a recipient that is refused for good.
const goneMark = "-gone"

// canaries are what must not be seen in any log, metric or event.
func (p *peers) canaries() []string { return []string{p.canary, accessToken} }

// trouble sets how often they misbehave from now on; the zero value mends them.
func (p *peers) trouble(m mishaps) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates = m
}

// fate decides what becomes of a call.
func (p *peers) fate(channel, recipient string) mishap {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[channel+" "+recipient]++
	return p.rates[channel].draw(p.seed, channel, recipient, p.calls[channel+" "+recipient])
}

// hold waits, unless the peers are closed first.
func (p *peers) hold(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.gone:
	}
}

// work takes the time that a call takes.
func (p *peers) work(recipient string) {
	if m := p.manners; m.most > 0 {
		p.hold(spanOf(p.seed, recipient, m.least, m.most))
	}
}

// holdLate waits until the sender has given up on the call.
func (p *peers) holdLate(recipient string) {
	p.hold(p.manners.timeout + spanOf(p.seed, recipient, 200*time.Millisecond, 2*time.Second))
}

// holdSlow waits for a while that a sender puts up with.
func (p *peers) holdSlow(recipient string) {
	p.hold(spanOf(p.seed, recipient, p.manners.timeout/20, p.manners.timeout/3))
}

// mishaps counts what they did wrong, by kind.
func (p *peers) mishaps() map[string]int {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	out := map[string]int{}
	maps.Copy(out, p.ledger.mishaps)
	return out
}

// effects is their ledger, in the order in which they decided.
func (p *peers) effects() []effect {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	return slices.Clone(p.ledger.kept)
}

func (p *peers) close() {
	close(p.gone)
	var errs []error
	if p.mail != nil {
		errs = append(errs, p.mail.close())
	}
	for _, h := range []*hookPeer{p.keyed, p.plain} {
		if h != nil {
			errs = append(errs, h.close())
		}
	}
	if p.push != nil {
		errs = append(errs, p.push.close())
	}
	_ = errors.Join(errs...) // what listens on this machine can be left to its end
}

// drawMishaps chooses how often they misbehave in a round.
func drawMishaps(rnd *rand.Rand) mishaps {
	return evenly(0.08+0.22*rnd.Float64(), mailChannel, keyedChannel, plainChannel, pushChannel)
}
