package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
)

// limit is far beyond what any of these calls takes, on a slow machine, too: a call that waits for it has hung.
const limit = 3 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	t.Cleanup(stop)
	return ctx
}

func connect(t *testing.T, o Options) *Client {
	t.Helper()
	o.NATS = append(o.NATS, nats.ReconnectWait(20*time.Millisecond))
	c, err := Connect(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// streams makes the two streams as a dispatcher would, on a connection of its own.
func streams(t *testing.T, url string, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, append(opts, nats.Timeout(limit), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name, subject := range map[string]string{wire.RequestStream: wire.RequestSubjects, wire.EventStream: wire.EventSubjects} {
		if _, err := js.CreateStream(within(t), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	return nc, js
}

func receipt(n int) Request {
	return Request{
		Key: dedup.Key(fmt.Sprintf("receipt-mail:%d", n)), OccurredAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
		Recipient: "ada@example.org", Content: json.RawMessage(`{"subject":"Your receipt","text":"Thanks."}`),
	}
}

func TestPublishIsStored(t *testing.T) {
	s := natstest.Start(t)
	_, js := streams(t, s.URL())
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c := connect(t, Options{URL: s.URL(), Caller: "shop"}).WithTrace(func(_ context.Context, h wire.Carrier) { h.Set("traceparent", trace) })

	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			if _, err := c.Publish(within(t), "mail", receipt(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	stored, err := c.Publish(within(t), "mail", receipt(50))
	if err != nil || stored.Sequence != 51 {
		t.Fatalf("stored %+v, %v", stored, err)
	}
	stream, err := js.Stream(within(t), wire.RequestStream)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetMsg(within(t), 51)
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.Decode(msg.Data)
	if err != nil || r.Key != "receipt-mail:50" || msg.Subject != "onebell.request.shop.mail" || wire.Traceparent(msg.Header) != trace {
		t.Errorf("stored on %s with %v: %+v, %v", msg.Subject, msg.Header, r, err)
	}
	if err := wire.CheckHeaders(msg.Header); err != nil {
		t.Errorf("the SDK's own headers are refused: %v", err)
	}
	if id := msg.Header.Get(nats.MsgIdHdr); id != "" {
		t.Error("the SDK sets a message id: the broker could take another's message for it")
	}
}

func TestMalformedRequestsAreNotSent(t *testing.T) {
	s := natstest.Start(t)
	_, js := streams(t, s.URL())
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	bad := receipt(1)
	bad.Key = "ada@example.org:1"
	_, e1 := c.Publish(within(t), "mail", bad)
	_, e2 := c.Submit(within(t), "Mail", receipt(1))
	_, e3 := c.Status(within(t), "mail", "x", 0)
	_, e4 := c.Cancel(within(t), "mail", "a:b", -1)
	for code, err := range map[string]error{
		dedup.CodeKeyInvalid: e1, dedup.CodeChannelInvalid: e2, wire.CodeRevisionInvalid: e4,
	} {
		var r *wire.Refusal
		if !errors.As(err, &r) || r.Code != code {
			t.Errorf("%v; want a refusal of code %s", err, code)
		}
	}
	var r *wire.Refusal
	if !errors.As(e3, &r) {
		t.Errorf("status of a bad key: %v", e3)
	}
	stream, err := js.Stream(within(t), wire.RequestStream)
	if err != nil || stream.CachedInfo().State.Msgs != 0 {
		t.Errorf("%+v, %v", stream, err)
	}
	for _, caller := range []string{"", "Shop", "a.b", "*"} {
		if _, err := Connect(within(t), Options{URL: s.URL(), Caller: caller}); err == nil {
			t.Errorf("caller %q passes", caller)
		}
	}
}

// The broker says nothing when no stream takes a subject: the call says it.
func TestNobodyListens(t *testing.T) {
	s := natstest.Start(t)
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	if _, err := c.Publish(within(t), "mail", receipt(1)); !errors.Is(err, ErrNoStream) || !strings.Contains(err.Error(), "onebell.request.shop.mail") {
		t.Errorf("publish: %v", err)
	}
	if _, err := c.Submit(within(t), "mail", receipt(1)); !errors.Is(err, ErrNoDispatcher) || !strings.Contains(err.Error(), "onebell.submit.shop.mail") {
		t.Errorf("submit: %v", err)
	}
	if _, err := c.Status(within(t), "mail", "a:b", 0); !errors.Is(err, ErrNoDispatcher) || errors.Is(err, ErrNotFound) {
		t.Errorf("status: %v", err)
	}
}

// answer stands in for a dispatcher: it answers everything on the subject with the same bytes, nil with nothing.
func answer(t *testing.T, nc *nats.Conn, subject string, data []byte) {
	t.Helper()
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
		if data != nil {
			if err := m.Respond(data); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "wire", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAnswersAreUnderstood(t *testing.T) {
	s := natstest.Start(t)
	nc, _ := streams(t, s.URL())
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	answer(t, nc, "onebell.submit.shop.mail", golden(t, "reply-accepted.json"))
	answer(t, nc, "onebell.submit.shop.push", golden(t, "reply-conflict.json"))
	answer(t, nc, "onebell.submit.shop.hooks", golden(t, "error.json"))
	answer(t, nc, "onebell.status.shop", golden(t, "status-reply.json"))
	answer(t, nc, "onebell.cancel.shop", golden(t, "cancel-reply-too-late.json"))

	if r, err := c.Submit(within(t), "mail", receipt(1)); err != nil || !r.Verdict.Admitted() || r.State != "pending" {
		t.Errorf("accepted: %+v, %v", r, err)
	}
	if r, err := c.Submit(within(t), "push", receipt(1)); err != nil || r.Verdict != wire.Conflict || r.Verdict.Admitted() || len(r.Fields) != 2 {
		t.Errorf("conflict: %+v, %v", r, err)
	}
	if _, err := c.Submit(within(t), "hooks", receipt(1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("unavailable: %v", err)
	}
	if r, err := c.Status(within(t), "mail", "receipt-mail:8841", 0); err != nil || r.State != "pending" || r.Attempts != 1 {
		t.Errorf("status: %+v, %v", r, err)
	}
	if r, err := c.Cancel(within(t), "mail", "receipt-mail:8841", 0); err != nil || r.Result != wire.CancelTooLate {
		t.Errorf("cancel: %+v, %v", r, err)
	}
}

func TestNotFoundAndSilence(t *testing.T) {
	s := natstest.Start(t)
	nc, _ := streams(t, s.URL())
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	answer(t, nc, "onebell.status.shop", wire.EncodeError(&wire.Refusal{Code: wire.CodeNotFound, Message: "there is none"}))
	answer(t, nc, "onebell.cancel.shop", nil)
	if _, err := c.Status(within(t), "mail", "a:b", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("status: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if _, err := c.Cancel(ctx, "mail", "a:b", 0); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Cancel(canceled, "mail", "a:b", 0); !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrPermission) {
		t.Errorf("cancelled by the caller: %v", err)
	}
}

// A broker that takes a request for one it had before proves nothing about this one.
func TestDuplicateAckIsNoProof(t *testing.T) {
	s := natstest.Start(t)
	nc, err := nats.Connect(s.URL(), nats.Timeout(limit))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	answer(t, nc, "onebell.request.shop.mail", []byte(`{"stream":"ONEBELL_REQUESTS","seq":7,"duplicate":true}`))
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	if _, err := c.Publish(within(t), "mail", receipt(1)); !errors.Is(err, ErrNotProven) {
		t.Errorf("publish: %v", err)
	}
}

// Another stream on the subject must not swallow requests.
func TestWrongStreamIsAnError(t *testing.T) {
	s := natstest.Start(t)
	nc, err := nats.Connect(s.URL(), nats.Timeout(limit))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(within(t), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"onebell.request.>"}})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	if _, err := c.Publish(within(t), "mail", receipt(1)); err == nil {
		t.Error("stored in a stream that no dispatcher reads")
	}
	if info, err := stream.Info(within(t)); err != nil || info.State.Msgs != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// The producer's loop: the same request again after every error, across a restart of the broker.
func TestPublishAgainAcrossARestart(t *testing.T) {
	s := natstest.Start(t, natstest.Durable())
	_, js := streams(t, s.URL())
	c := connect(t, Options{URL: s.URL(), Caller: "shop"})
	published := make(chan error, 1)
	half := make(chan struct{})
	go func() {
		for n := range 40 {
			if n == 20 {
				close(half)
			}
			for {
				ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
				_, err := c.Publish(ctx, "mail", receipt(n))
				stop()
				if err == nil {
					break
				}
				if t.Context().Err() != nil {
					published <- err
					return
				}
			}
		}
		published <- nil
	}()
	<-half
	s.Restart(t)
	select {
	case err := <-published:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(limit):
		t.Fatal("the publisher did not come through")
	}
	keys := map[string]bool{}
	stream, err := js.Stream(within(t), wire.RequestStream)
	if err != nil {
		t.Fatal(err)
	}
	for seq := stream.CachedInfo().State.FirstSeq; seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(within(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		r, err := wire.Decode(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		keys[string(r.Key)] = true
	}
	if len(keys) != 40 {
		t.Errorf("%d of 40 requests are stored", len(keys))
	}
}
