package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/migrations/pgtest"
)

// pushed is what a request to FCM says.
type pushed struct {
	Message struct {
		Token   string
		Android struct {
			CollapseKey  string `json:"collapse_key"`
			Notification struct{ Tag string }
		}
		APNS    struct{ Headers map[string]string }
		Webpush struct{ Headers map[string]string }
	}
}

// scriptedFCM answers each request by its token: "flaky" ones with 503 the first time, "gone" ones as unregistered.
func scriptedFCM(t *testing.T) *channeltest.HTTPPeer {
	var mu sync.Mutex
	met := map[string]bool{}
	return channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Reply: func(w io.Writer, _ *http.Request, body []byte) {
		var p pushed
		_ = json.Unmarshal(body, &p) // one that is none has no token
		mu.Lock()
		first := !met[p.Message.Token]
		met[p.Message.Token] = true
		mu.Unlock()
		status, reply := 200, `{"name":"projects/my-app-1a2b3/messages/0:1"}`
		switch token := p.Message.Token; {
		case strings.HasPrefix(token, "flaky") && first:
			status, reply = 503, `{"error":{"code":503,"message":"try later","status":"UNAVAILABLE"}}`
		case strings.HasPrefix(token, "gone"):
			status, reply = 404, `{"error":{"code":404,"message":"gone","status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}`
		}
		fmt.Fprintf(w, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s", status, len(reply), reply)
	}})
}

// pushService starts a whole onebell with the channel push, and a producer.
func pushService(t *testing.T, endpoint string) (*App, *client.Client) {
	t.Helper()
	tokens := channeltest.NewHTTPPeer(t, channeltest.HTTPOptions{Reply: func(w io.Writer, _ *http.Request, _ []byte) {
		const reply = `{"access_token":"token","expires_in":3599}`
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply)
	}})
	setEnv(t, nil)
	log := slog.New(slog.DiscardHandler)
	s, err := startStack(t.Context(), stackOptions{databaseURL: pgtest.New(t)}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.down.run(context.Background(), log) })
	cfg, err := s.config(list{"push:fcm"}, func(c *Config) {
		for _, in := range c.instances {
			e := in.env.(*fcmEnv)
			e.CredentialsFile, e.Endpoint = filePath(firebaseKey(t, tokens.URL("/token"))), word(endpoint)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	app, err := newApp(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = app.Stop(context.Background()) })
	eventuallyReady(t, "http://"+app.Addr())
	producer, err := client.Connect(t.Context(), client.Options{URL: s.broker.URL(), Caller: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	return app, producer
}

// D2, W3 and what is shown, through the whole service and the real SDK: a 503 is one POST, and the resend replaces what it may have
// shown; FCM's collapse_key is set for a producer's class alone; a dead token is told to the producer.
func TestPushesThroughTheWholeService(t *testing.T) {
	peer := scriptedFCM(t)
	app, producer := pushService(t, peer.URL(""))
	at := time.Now()
	for _, r := range []client.Request{
		{Key: "parcel:1", Recipient: "flaky-device:APA91b"},
		{Key: "parcel:2", Recipient: "gone-device:APA91b"},
		{Key: "score:3", Recipient: "device-3:APA91b", CollapseID: "scores"},
		{Key: "score:4", Recipient: "device-4:APA91b", CollapseID: "scores"},
	} {
		r.OccurredAt, r.Content = at, json.RawMessage(`{"title":"Your parcel","data":{"order":"1"}}`)
		if reply, err := producer.Submit(t.Context(), "push", r); err != nil || reply.Verdict != wire.Accepted {
			t.Fatalf("%s: %+v %v", r.Key, reply, err)
		}
	}
	ends := map[string]client.Event{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_ = producer.Events(ctx, func(_ context.Context, e client.Event) error { // it ends with ctx; what is missing is said below
		if ends[string(e.Key)] = e; len(ends) == 4 {
			cancel()
		}
		return nil
	})
	for key, dead := range map[string]bool{"parcel:1": false, "parcel:2": true, "score:3": false, "score:4": false} {
		e := ends[key]
		if what := map[bool]string{true: "rejected", false: "succeeded"}[dead]; string(e.What) != what || e.DeadRecipient != dead {
			t.Errorf("%s: %s %s dead %v, want %s", key, e.What, e.Code, e.DeadRecipient, what)
		}
	}
	sent := map[string][]pushed{}
	for _, a := range peer.Arrivals() {
		var p pushed
		if err := json.Unmarshal(a.Body, &p); err != nil {
			t.Fatal(err)
		}
		sent[p.Message.Token] = append(sent[p.Message.Token], p)
	}
	flaky, third, fourth := sent["flaky-device:APA91b"], sent["device-3:APA91b"], sent["device-4:APA91b"]
	if len(flaky) != 2 || len(third) != 1 || len(fourth) != 1 || len(sent["gone-device:APA91b"]) != 1 {
		t.Fatalf("%d, %d and %d POSTs", len(flaky), len(third), len(fourth))
	}
	tag := flaky[0].Message.Android.Notification.Tag
	for _, p := range flaky {
		m := p.Message
		if len(tag) != 32 || m.Android.Notification.Tag != tag || m.APNS.Headers["apns-collapse-id"] != tag || m.Webpush.Headers["Topic"] != tag || m.Android.CollapseKey != "" {
			t.Errorf("%+v", m)
		}
	}
	if a, b := third[0].Message.Android, fourth[0].Message.Android; a != b || a.CollapseKey == "" || a.CollapseKey == tag {
		t.Errorf("two of one class: %+v %+v", a, b)
	}
	if _, page := fetch(t, "http://"+app.Addr()+"/v1/intents?key=parcel:1"); !strings.Contains(page, `"possible_duplicates":1`) {
		t.Errorf("the resend is not counted: %s", page)
	}
}
