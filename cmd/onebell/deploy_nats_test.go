package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

// shippedBroker runs a real server on deploy/nats-server.conf, on a free port and in a folder of its own.
func shippedBroker(t *testing.T) *server.Server {
	t.Helper()
	for _, user := range []string{"OPERATOR", "DISPATCHER", "SHOP"} {
		t.Setenv("NATS_"+user+"_PASSWORD", "x-"+strings.ToLower(user))
	}
	opts, err := server.ProcessConfigFile("../../deploy/nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !opts.SyncAlways {
		t.Error("sync_interval is not always: acknowledged requests could be lost with the power")
	}
	if opts.MaxPayload <= dispatch.MaxRequestBytes {
		t.Errorf("max_payload %d is not above the stream's limit %d: an oversize request would cost the connection", opts.MaxPayload, dispatch.MaxRequestBytes)
	}
	if opts.MaxPayload != localPayload {
		t.Errorf("max_payload is %d, that of dev and demo %d: what is refused here would be cut off there", opts.MaxPayload, localPayload)
	}
	opts.Host, opts.Port, opts.HTTPPort, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", -1, 0, t.TempDir(), true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the broker did not start")
	}
	return srv
}

// connectAs connects as a user of the shipped configuration; denied receives the server's permission errors.
func connectAs(t *testing.T, srv *server.Server, user string) (nc *nats.Conn, denied chan error) {
	t.Helper()
	denied = make(chan error, 16)
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo(user, "x-"+user), nats.CustomInboxPrefix("_INBOX."+user), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, denied
}

// refusedByServer reports whether the server answered the last operation with a permission error about the subject. Errors come in order: what
// follows is certainly refused, and tells when there is no more to come of what was before it.
func refusedByServer(t *testing.T, nc *nats.Conn, denied chan error, subject string) (refused bool) {
	t.Helper()
	const forbidden = "nobody.may.publish.here"
	if err := errors.Join(nc.Publish(forbidden, nil), nc.FlushTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case err := <-denied:
			if strings.Contains(err.Error(), forbidden) {
				return refused
			}
			refused = refused || errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), subject)
		case <-time.After(patience):
			t.Fatal("not even what is certainly forbidden was refused")
		}
	}
}

func TestShippedBrokerLetsTheServiceWork(t *testing.T) {
	srv := shippedBroker(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	worker, workerDenied := connectAs(t, srv, "dispatcher")
	js, err := jetstream.New(worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := dispatch.EnsureStreams(ctx, js, true); err != nil {
		t.Fatalf("the dispatcher cannot create what it needs: %v", err)
	}
	answer := func(m *nats.Msg) { _ = m.Respond([]byte("ok " + m.Subject)) }
	for _, subject := range []string{"onebell.submit.>", "onebell.status.>", "onebell.cancel.>"} {
		if _, err := worker.QueueSubscribe(subject, "onebell", answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := worker.Flush(); err != nil {
		t.Fatal(err)
	}

	shop, shopDenied := connectAs(t, srv, "shop")
	shopJS, err := jetstream.New(shop)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shopJS.Publish(ctx, "onebell.request.shop.mail", []byte("{}")); err != nil {
		t.Fatalf("the producer cannot publish a request: %v", err)
	}
	for _, subject := range []string{"onebell.submit.shop.mail", "onebell.status.shop", "onebell.cancel.shop"} {
		if m, err := shop.RequestWithContext(ctx, subject, nil); err != nil || string(m.Data) != "ok "+subject {
			t.Errorf("%s: %v %v", subject, m, err)
		}
	}
	consumer, err := js.Consumer(ctx, wire.RequestStream, dispatch.RequestConsumerName)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := msg.DoubleAck(ctx); err != nil {
		t.Fatalf("the dispatcher cannot acknowledge: %v", err)
	}
	events, err := shop.SubscribeSync("onebell.event.shop.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := shop.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "onebell.event.shop.mail.succeeded", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := events.NextMsgWithContext(ctx); err != nil {
		t.Errorf("the producer does not see its event: %v", err)
	}
	if len(workerDenied)+len(shopDenied) > 0 {
		t.Errorf("permission errors: %d and %d", len(workerDenied), len(shopDenied))
	}
	if err := worker.Publish("$JS.ACK.hub.acc.ONEBELL_REQUESTS.onebell.1.2.3", nil); err != nil {
		t.Fatal(err)
	}
	if refusedByServer(t, worker, workerDenied, "Publish to \"$JS.ACK.hub") {
		t.Error("the dispatcher may not acknowledge in the newer form")
	}
}

// The SDK under a producer's permissions: it publishes, and reads its events from the consumer that the operator made.
func TestShippedBrokerServesTheSDK(t *testing.T) {
	srv := shippedBroker(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	operator, _ := connectAs(t, srv, "operator")
	js, err := jetstream.New(operator)
	if err != nil {
		t.Fatal(err)
	}
	if err := dispatch.EnsureStreams(ctx, js, true); err != nil {
		t.Fatal(err)
	}
	shop, err := client.Connect(ctx, client.Options{
		URL: srv.ClientURL(), Caller: "shop", User: "shop", Password: "x-shop",
		NATS: []nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer shop.Close()
	request := client.Request{Key: "order:1", OccurredAt: time.Now(), Recipient: "ada@example.org", Content: []byte(`{"subject":"-","text":"-"}`)}
	if _, err := shop.Publish(ctx, "mail", request); err != nil {
		t.Errorf("publishing: %v", err)
	}
	read := func(ctx context.Context) (n int, err error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		err = shop.Events(ctx, func(context.Context, client.Event) error { n++; stop(); return nil })
		return n, err
	}
	if _, err := read(ctx); !errors.Is(err, client.ErrPermission) {
		t.Errorf("without the consumer: %v, want the server's refusal to make one", err)
	}
	if _, err := js.CreateConsumer(ctx, wire.EventStream, client.EventConsumer("shop")); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "onebell.event.shop.mail.succeeded", []byte(`{"id":"1","what":"succeeded"}`)); err != nil {
		t.Fatal(err)
	}
	if n, err := read(ctx); n != 1 || err != nil {
		t.Errorf("%d events, %v", n, err)
	}
	if _, err := client.Connect(ctx, client.Options{URL: srv.ClientURL(), Caller: "shop", User: "shop", Password: "wrong"}); err == nil {
		t.Error("a wrong password was taken")
	}
}

func TestShippedBrokerForbids(t *testing.T) {
	srv := shippedBroker(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	operator, _ := connectAs(t, srv, "operator")
	js, err := jetstream.New(operator)
	if err != nil {
		t.Fatal(err)
	}
	if err := dispatch.EnsureStreams(ctx, js, true); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ user, subject string }{
		{"shop", "onebell.request.other.mail"},
		{"shop", "onebell.submit.other.mail"},
		{"shop", "onebell.status.other"},
		{"shop", "onebell.cancel.other"},
		{"shop", "onebell.event.shop.mail.succeeded"},
		{"shop", "_INBOX.other.reply"},
		{"shop", "$JS.API.STREAM.CREATE.MINE"},
		{"shop", "$JS.API.STREAM.PURGE.ONEBELL_REQUESTS"},
		{"shop", "$JS.API.STREAM.MSG.GET.ONEBELL_REQUESTS"},
		{"shop", "$JS.API.STREAM.MSG.DELETE.ONEBELL_REQUESTS"},
		{"shop", "$JS.API.CONSUMER.CREATE.ONEBELL_REQUESTS"},
		{"shop", "$JS.API.CONSUMER.CREATE.ONEBELL_REQUESTS.spy"},
		{"shop", "$JS.API.CONSUMER.DURABLE.CREATE.ONEBELL_REQUESTS.spy"},
		{"shop", "$JS.API.CONSUMER.CREATE.ONEBELL_EVENTS.spy.onebell.event.other.>"},
		{"shop", "$JS.API.CONSUMER.MSG.NEXT.ONEBELL_REQUESTS.onebell"},
		{"shop", "$JS.API.CONSUMER.DELETE.ONEBELL_REQUESTS.onebell"},
		{"shop", "$JS.ACK.ONEBELL_REQUESTS.onebell.1.1.1.1.1"},
		{"dispatcher", "$JS.API.STREAM.PURGE.ONEBELL_REQUESTS"},
		{"dispatcher", "$JS.API.STREAM.DELETE.ONEBELL_REQUESTS"},
		{"dispatcher", "$JS.API.STREAM.UPDATE.ONEBELL_REQUESTS"},
		{"dispatcher", "$JS.API.STREAM.DELETE.ONEBELL_EVENTS"},
		{"dispatcher", "$JS.API.CONSUMER.DELETE.ONEBELL_REQUESTS.onebell"},
		{"dispatcher", "$JS.API.CONSUMER.CREATE.ONEBELL_REQUESTS.spy.onebell.request.>"},
		{"dispatcher", "onebell.request.shop.mail"},
		{"dispatcher", "onebell.submit.shop.mail"},
	} {
		t.Run("publish/"+tc.user+" "+tc.subject, func(t *testing.T) {
			nc, denied := connectAs(t, srv, tc.user)
			if err := nc.Publish(tc.subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if !refusedByServer(t, nc, denied, fmt.Sprintf("Publish to %q", tc.subject)) {
				t.Error("the server let it pass")
			}
		})
	}
	for _, tc := range []struct{ user, subject string }{
		{"shop", "onebell.request.>"},
		{"shop", "onebell.request.shop.>"},
		{"shop", "onebell.event.>"},
		{"shop", "onebell.event.other.>"},
		{"shop", "onebell.submit.>"},
		{"shop", "_INBOX.>"},
		{"shop", "_INBOX.dispatcher.>"},
		{"dispatcher", "_INBOX.shop.>"},
	} {
		t.Run("subscribe/"+tc.user+" "+tc.subject, func(t *testing.T) {
			nc, denied := connectAs(t, srv, tc.user)
			if _, err := nc.SubscribeSync(tc.subject); err != nil {
				t.Fatal(err)
			}
			if !refusedByServer(t, nc, denied, fmt.Sprintf("Subscription to %q", tc.subject)) {
				t.Error("the server let it pass")
			}
		})
	}
	t.Run("roll-up, schedules and TTLs", func(t *testing.T) {
		nc, _ := connectAs(t, srv, "shop")
		shop, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		for header, value := range map[string]string{"Nats-Rollup": "all", "Nats-TTL": "1s", "Nats-Schedule": "@at 2030-01-01T00:00:00Z"} {
			m := nats.NewMsg("onebell.request.shop.mail")
			m.Header.Set(header, value)
			m.Header.Set("Nats-Schedule-Target", "onebell.request.other.mail")
			if _, err := shop.PublishMsg(ctx, m); err == nil {
				t.Errorf("%s was taken", header)
			}
		}
		stream, err := js.Stream(ctx, wire.RequestStream)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(ctx); err == nil {
			t.Error("even the operator may not purge requests")
		}
	})
}
