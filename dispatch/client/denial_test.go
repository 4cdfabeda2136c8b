package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onebell/onebell/dispatch/natstest"
)

const users = `
jetstream {}
authorization { users: [
  { user: all, password: p }
  { user: shop, password: p, permissions: {
      publish: ["onebell.request.shop.>", "onebell.submit.shop.>"], subscribe: ["_INBOX.shop.>", "onebell.event.shop.>"] } }
] }`

func guarded(t *testing.T) *natstest.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, natstest.Config(path))
	streams(t, s.URL(), nats.UserInfo("all", "p"))
	return s
}

// The server drops a denied publish and tells it out of band, while the call waits: it must not wait in vain.
func TestDeniedSubjectsAreNamed(t *testing.T) {
	s := guarded(t)
	own := connect(t, Options{URL: s.URL(), Caller: "shop", User: "shop", Password: "p"})
	if _, err := own.Publish(within(t), "mail", receipt(1)); err != nil {
		t.Fatalf("what is allowed: %v", err)
	}
	other := connect(t, Options{URL: s.URL(), Caller: "bank", User: "shop", Password: "p", InboxPrefix: "_INBOX.shop"})
	calls := map[string]func() error{
		"onebell.request.bank.mail": func() error { _, err := other.Publish(within(t), "mail", receipt(1)); return err },
		"onebell.submit.bank.mail":  func() error { _, err := other.Submit(within(t), "mail", receipt(1)); return err },
		"onebell.status.bank":       func() error { _, err := other.Status(within(t), "mail", "a:b", 0); return err },
		"onebell.cancel.bank":       func() error { _, err := other.Cancel(within(t), "mail", "a:b", 0); return err },
		"onebell.event.bank.>":      func() error { return other.Watch(within(t), nil, func(context.Context, Event) {}) },
		"$JS.":                      func() error { return own.Events(within(t), func(context.Context, Event) error { return nil }) },
	}
	for subject, call := range calls {
		err := call() // a wait for the call's own end would not end as a denial
		var denied *PermissionError
		if !errors.Is(err, ErrPermission) || !errors.As(err, &denied) || denied.Subject != subject || denied.Inbox {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// A denial belongs to the call on that subject; a neighbour that waits on the same connection goes on waiting.
func TestDenialsDoNotTouchNeighbours(t *testing.T) {
	s := guarded(t)
	c := connect(t, Options{URL: s.URL(), Caller: "shop", User: "shop", Password: "p"})
	nc, err := nats.Connect(s.URL(), nats.UserInfo("all", "p"), nats.Timeout(limit))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	asked := make(chan *nats.Msg, 1)
	if _, err := nc.ChanSubscribe("onebell.submit.shop.mail", asked); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	verdict := make(chan error, 1)
	go func() {
		_, err := c.Submit(within(t), "mail", receipt(1))
		verdict <- err
	}()
	var msg *nats.Msg
	select {
	case msg = <-asked:
	case <-time.After(limit):
		t.Fatal("the neighbour did not ask")
	}
	if _, err := c.Cancel(within(t), "mail", "a:b", 0); !errors.Is(err, ErrPermission) {
		t.Errorf("cancel: %v", err)
	}
	if err := msg.Respond(golden(t, "reply-accepted.json")); err != nil {
		t.Fatal(err)
	}
	if err := <-verdict; err != nil {
		t.Errorf("the neighbour: %v", err)
	}
}

// Without its inbox no answer can come, however often is asked.
func TestDeniedInboxIsNamed(t *testing.T) {
	s := guarded(t)
	c := connect(t, Options{URL: s.URL(), Caller: "shop", User: "shop", Password: "p", InboxPrefix: "_INBOX.bank"})
	for range 2 {
		_, err := c.Publish(within(t), "mail", receipt(1))
		var denied *PermissionError
		if !errors.As(err, &denied) || !denied.Inbox || denied.Subject != "_INBOX.bank.>" {
			t.Errorf("publish: %v", err)
		}
	}
}

// New joins a connection that has an error handler: both hear.
func TestNewKeepsTheConnectionsErrorHandler(t *testing.T) {
	s := guarded(t)
	heard := make(chan error, 10)
	nc, err := nats.Connect(s.URL(), nats.UserInfo("shop", "p"), nats.Timeout(limit), nats.CustomInboxPrefix("_INBOX.shop"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { heard <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := New(nc, "bank")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(within(t), "mail", receipt(1)); !errors.Is(err, ErrPermission) {
		t.Errorf("publish: %v", err)
	}
	select {
	case err := <-heard:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("heard %v", err)
		}
	case <-within(t).Done():
		t.Error("the connection's own handler heard nothing")
	}
	c.Close()
	if nc.IsClosed() {
		t.Error("Close closed a connection that is not the client's")
	}
}
