// Package smtp sends mail through a mail server.
//
// SMTP knows no key that would keep a repeat away, so the channel is duplicate-visible: once a byte of the final dot may have
// left, only the server's reply says what happened, and without it the outcome is unknown. Before the dot nothing can have been
// applied, because a transaction that fails is ended by closing the connection and by nothing else.
// A mail is rendered once, at admission; every attempt sends the same bytes, with the same Message-ID and Date.
// Behind a relay that drops repeats by a header (Config.IdempotencyHeader) the channel is keyed.
package smtp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/onebell/onebell/channels"
)

// Channel is one account at one mail server. Make it with New; it is safe for concurrent use.
type Channel struct {
	cfg    settled
	pool   pool
	closed atomic.Bool
}

var (
	_ channels.Channel = (*Channel)(nil)
	_ channels.Prober  = (*Channel)(nil)
)

// New checks the configuration; it opens nothing. The error names the setting to mend and holds no secret.
func New(cfg Config) (*Channel, error) {
	s, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	return &Channel{cfg: s, pool: pool{maxIdle: s.MaxIdle, idleTimeout: s.IdleTimeout}}, nil
}

// Contract returns what this account can promise.
func (c *Channel) Contract() channels.Contract {
	contract := channels.Contract{
		Guarantee:         channels.DuplicateVisible,
		KeyFormat:         "hex40", // the left side of the Message-ID
		LookUp:            channels.LookUpNone,
		AttemptTimeout:    c.cfg.Timeout,
		MaxContentBytes:   maxContent,
		DeadRecipientCode: deadCodes,
		MisconfiguredCode: []string{"432", "530", "534", "535", "538"},
	}
	if c.cfg.IdempotencyHeader != "" {
		contract.Guarantee = channels.Keyed
		contract.KeyField = c.cfg.IdempotencyHeader
		contract.KeyWindow = c.cfg.KeyWindow
		contract.KeyScope = c.cfg.keyScope()
	}
	return contract
}

// Validate takes one bare mail address and a mail's content (see Schema). The normal form has the domain in lower case and in
// ASCII; what stands before the @ stays as it is.
func (c *Channel) Validate(recipient string, raw json.RawMessage) (string, error) {
	normal, _, err := c.read(recipient, raw)
	return normal, err
}

// Render makes the mail, headers and body, as it will be sent.
func (c *Channel) Render(m channels.Message) ([]byte, error) {
	normal, parsed, err := c.read(m.Recipient, m.Content)
	if err != nil {
		return nil, err
	}
	if normal != m.Recipient {
		return nil, &channels.Refusal{Code: channels.CodeRecipientInvalid, Field: "recipient", Message: "it is not in its normal form; validate it first"}
	}
	out, err := c.cfg.render(m, parsed)
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	return out, nil
}

func (c *Channel) read(recipient string, raw json.RawMessage) (normal string, parsed content, err error) {
	if normal, err = parseAddress(recipient); err != nil {
		return "", parsed, &channels.Refusal{Code: channels.CodeRecipientInvalid, Field: "recipient", Message: err.Error()}
	}
	if parsed, err = parseContent(raw, c.cfg.IdempotencyHeader); err != nil {
		return "", parsed, err
	}
	return normal, parsed, nil
}

// Send makes at most one mail transaction that reaches the final dot. It connects anew once, at most, when a kept connection
// proves dead before anything of the mail was written.
func (c *Channel) Send(ctx context.Context, a channels.Attempt) channels.Outcome {
	limit := time.Now().Add(c.cfg.Timeout)
	if deadline, ok := ctx.Deadline(); ok {
		limit = earlier(limit, deadline)
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	l := letter{
		sender: c.cfg.from.Address, recipient: a.Recipient, bytes: a.Rendered,
		before: limit.Add(-c.cfg.DotTimeout), limit: limit, command: c.cfg.CommandTimeout,
	}
	if o, bad := c.unfit(ctx, l); bad {
		return o
	}
	r, f := c.attempt(ctx, l, !c.cfg.NoReuse)
	if f.stale() && ctx.Err() == nil {
		c.pool.drop()
		r, f = c.attempt(ctx, l, false)
	}
	if f == nil {
		f = &fault{stage: stageDot, reply: r}
	}
	if errors.Is(f.err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled) {
		f.err = ctx.Err()
	}
	f.reply.text = c.cfg.strike(f.reply.text, a.Recipient)
	return classify(*f)
}

// unfit finds what makes an attempt pointless before it is begun.
func (c *Channel) unfit(ctx context.Context, l letter) (channels.Outcome, bool) {
	address, err := parseAddress(l.recipient)
	switch {
	case c.closed.Load():
		return channels.OutcomeNotSent(channels.PhaseNone, "closed", "the channel was closed"), true
	case err != nil || address != l.recipient:
		return channels.OutcomeRefused("recipient", "the recipient is not a mail address in normal form"), true
	case len(l.bytes) == 0 || checkLines(l.bytes) != nil:
		return channels.OutcomeRefused("rendered", "the stored mail is empty or its lines are broken"), true
	case ctx.Err() != nil || !time.Now().Before(l.before):
		return channels.OutcomeNotSent(channels.PhaseNone, "deadline", "too little time is left to send and to wait for the reply"), true
	}
	return channels.Outcome{}, false
}

// attempt delivers over a kept connection if it may and there is one, else over a new one.
func (c *Channel) attempt(ctx context.Context, l letter, reuse bool) (reply, *fault) {
	var s *session
	if reuse {
		s = c.pool.take(ctx, l.before)
	}
	reused := s != nil
	if !reused {
		var f *fault
		if s, f = c.connect(ctx, l.before); f != nil {
			return reply{}, f
		}
	}
	stop := context.AfterFunc(ctx, s.wire.kill)
	r, f := s.deliver(ctx, l)
	switch alive := stop(); {
	case !alive || f != nil && !f.harmless():
		s.cut()
	case c.cfg.NoReuse:
		s.quit(earlier(time.Now().Add(quitTimeout), l.limit))
	default:
		c.pool.put(s, l.limit)
	}
	if f != nil {
		f.reused = reused
	}
	return r, f
}

// Probe connects, encrypts, logs in and takes leave.
func (c *Channel) Probe(ctx context.Context) error {
	s, f := c.connect(ctx, time.Now().Add(c.cfg.Timeout-c.cfg.DotTimeout))
	if f != nil {
		f.reply.text = c.cfg.strike(f.reply.text, "")
		o := classify(*f)
		return fmt.Errorf("the mail server %s: %s (%s, %s)", c.cfg.Addr, o.Message(), o.Result(), o.Code())
	}
	s.quit(time.Now().Add(quitTimeout))
	return nil
}

// Close takes leave of the kept connections. Connections in use are closed when their mails end; later sends are not made.
func (c *Channel) Close() error {
	c.closed.Store(true)
	c.pool.close()
	return nil
}
