package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
)

func publishEvent(t *testing.T, js jetstream.JetStream, caller, id string) {
	t.Helper()
	e := Event{ID: id, Caller: caller, Channel: "mail", What: wire.WhatSucceeded, Admitted: true}
	if _, err := js.Publish(within(t), wire.EventSubject(caller, "mail", e.What), e.Encode()); err != nil {
		t.Fatal(err)
	}
}

func eventStream(t *testing.T) (*natstest.Server, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	s := natstest.Start(t)
	nc, js := streams(t, s.URL())
	return s, nc, js
}

func TestEventsComeInOrderUntilTheyAreHandled(t *testing.T) {
	s, _, js := eventStream(t)
	if _, err := js.CreateConsumer(within(t), wire.EventStream, EventConsumer("shop")); err != nil {
		t.Fatal(err)
	}
	publishEvent(t, js, "shop", "1")
	publishEvent(t, js, "bank", "not ours")
	if _, err := js.Publish(within(t), "onebell.event.shop.mail.succeeded", []byte("not an event")); err != nil {
		t.Fatal(err)
	}
	publishEvent(t, js, "shop", "2")
	publishEvent(t, js, "shop", "3")

	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	ctx, stop := context.WithCancel(within(t))
	var seen []string
	err := c.Events(ctx, func(_ context.Context, e Event) error {
		seen = append(seen, e.ID)
		switch {
		case e.ID == "2" && len(seen) == 2:
			return errors.New("not now")
		case e.ID == "3":
			stop()
		}
		return nil
	})
	if want := []string{"1", "2", "2", "3"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("handled %v, %v; want %v", seen, err, want)
	}
	consumer, err := js.Consumer(within(t), wire.EventStream, "events-shop")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := consumer.Info(within(t)); err != nil || info.NumPending != 0 {
		t.Errorf("consumer %+v, %v", info, err)
	}
}

// Where the server allows it, the consumer is made; in production it does not, and the error says what to do.
func TestEventsWithoutConsumer(t *testing.T) {
	s, _, js := eventStream(t)
	publishEvent(t, js, "shop", "1")
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	ctx, stop := context.WithCancel(within(t))
	seen := 0
	if err := c.Events(ctx, func(context.Context, Event) error { seen++; stop(); return nil }); err != nil || seen != 1 {
		t.Errorf("%d events, %v", seen, err)
	}

	path := filepath.Join(t.TempDir(), "nats.conf")
	mayLook := strings.Replace(users, `"onebell.submit.shop.>"]`, `"onebell.submit.shop.>", "$JS.API.CONSUMER.INFO.>"]`, 1)
	if err := os.WriteFile(path, []byte(mayLook), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded := natstest.Start(t, natstest.Config(path))
	streams(t, guarded.URL(), nats.UserInfo("all", "p"))
	denied := connect(t, Options{URL: guarded.URL(), Caller: "shop", User: "shop", Password: "p"})
	err := denied.Events(within(t), func(context.Context, Event) error { return nil })
	if !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), "nats consumer add ONEBELL_EVENTS events-shop") {
		t.Errorf("%v", err)
	}
}

func TestWatchSeesWhatHappens(t *testing.T) {
	s, nc, js := eventStream(t)
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	publishEvent(t, js, "shop", "before")
	ctx, stop := context.WithCancel(within(t))
	var seen []string
	ready := func() {
		if err := nc.Publish("onebell.event.shop.mail.succeeded", []byte("not an event")); err != nil {
			t.Error(err)
		}
		publishEvent(t, js, "bank", "not ours")
		for n := range 20 {
			publishEvent(t, js, "shop", fmt.Sprint(n))
		}
	}
	err := c.Watch(ctx, ready, func(_ context.Context, e Event) {
		if seen = append(seen, e.ID); e.ID == "19" {
			stop()
		}
	})
	if err != nil || len(seen) != 20 || seen[0] != "0" {
		t.Errorf("saw %v, %v", seen, err)
	}
}
