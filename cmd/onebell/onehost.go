package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onebell/onebell/deploy/local"
)

// oneHost is a whole onebell on this machine: broker, database, a mail inbox, a webhook receiver, and the process itself with a
// channel to each. `demo` and `dev` are made of it.
type oneHost struct {
	stack    *stack
	inbox    *local.Inbox
	receiver *local.Receiver
	app      *App
	down     teardown
}

// Names of the channels on one host.
const (
	mailChannel = "mail"
	hookChannel = "hooks"
)

// oneHostOptions says what becomes of what arrives, beside where the data stands.
type oneHostOptions struct {
	stackOptions
	mails, calls local.Script // nil takes all
}

// startOneHost brings everything up. After an error everything is down again.
func startOneHost(ctx context.Context, o oneHostOptions, log *slog.Logger) (_ *oneHost, err error) {
	h := &oneHost{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.stop(context.WithoutCancel(ctx), log))
		}
	}()
	if h.stack, err = startStack(ctx, o.stackOptions, log); err != nil {
		return nil, err
	}
	h.down.push("broker and database", time.Minute, func(ctx context.Context) error { return h.stack.down.run(ctx, log) })
	if err := h.startPeers(o, log); err != nil {
		return nil, err
	}
	admin, err := o.port(8080)
	if err != nil {
		return nil, err
	}
	cfg, err := h.stack.config(list{mailChannel + ":smtp", hookChannel + ":webhook"}, func(c *Config) { h.fill(c, admin) })
	if err != nil {
		return nil, err
	}
	if h.app, err = newApp(cfg, log); err != nil {
		return nil, err
	}
	if err := h.app.Start(ctx); err != nil {
		return nil, err
	}
	h.down.push("onebell", h.app.grace()+time.Minute, h.app.Stop)
	return h, nil
}

// startPeers starts what the channels send to.
func (h *oneHost) startPeers(o oneHostOptions, log *slog.Logger) error {
	ports := make([]int, 3)
	for i, usual := range []int{1025, 8025, 8090} {
		var err error
		if ports[i], err = o.port(usual); err != nil {
			return err
		}
	}
	var err error
	if h.inbox, err = local.NewInbox(local.InboxOptions{SMTPPort: ports[0], HTTPPort: ports[1], Script: o.mails, Log: log}); err != nil {
		return err
	}
	h.down.push("inbox", quickLimit, func(context.Context) error { return h.inbox.Close() })
	if h.receiver, err = local.NewReceiver(local.ReceiverOptions{Port: ports[2], Script: o.calls, Log: log}); err != nil {
		return err
	}
	h.down.push("receiver", quickLimit, func(context.Context) error { return h.receiver.Close() })
	return nil
}

// fill points the channels at the local peers. The receiver deduplicates on Idempotency-Key, so hooks are keyed.
func (h *oneHost) fill(c *Config, adminPort int) {
	c.AdminAddr = localAddr(adminPort)
	for _, in := range c.instances {
		switch e := in.env.(type) {
		case *smtpEnv:
			e.Addr, e.From, e.TLS = hostPort(h.inbox.SMTPAddr()), "Onebell Shop <shop@example.org>", "none"
		case *webhookEnv:
			e.Dedup, e.KeyWindow, e.AllowPrivate = "idempotency-key", span(24*time.Hour), list{"127.0.0.0/8"}
		}
	}
}

// stop takes everything down. Safe to call twice.
func (h *oneHost) stop(ctx context.Context, log *slog.Logger) error { return h.down.run(ctx, log) }
