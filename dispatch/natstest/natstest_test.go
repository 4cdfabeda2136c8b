package natstest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestMain(m *testing.M) {
	ServeIfChild()
	os.Exit(m.Run())
}

const patience = 2 * time.Minute

func connect(t *testing.T, url string, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	opts = append([]nats.Option{nats.Timeout(patience), nats.ReconnectWait(20 * time.Millisecond), nats.MaxReconnects(-1)}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func publishOne(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s.a", []byte("kept")); err != nil {
		t.Fatal(err)
	}
}

// mustHold asserts that a client who connects anew finds the message.
func mustHold(t *testing.T, url string) {
	t.Helper()
	_, js := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetMsg(ctx, 1)
	if err != nil || string(msg.Data) != "kept" {
		t.Fatalf("message is %v, %v", msg, err)
	}
}

func TestRestartKeepsPortAndStreams(t *testing.T) {
	s := Start(t)
	again := make(chan struct{}, 1)
	nc, js := connect(t, s.URL(), nats.ReconnectHandler(func(*nats.Conn) { again <- struct{}{} }))
	publishOne(t, js)
	before := s.URL()
	s.Shutdown()
	if _, err := nats.Connect(s.URL()); err == nil {
		t.Error("connected to a broker that is down")
	}
	s.Restart(t)
	if s.URL() != before {
		t.Errorf("moved from %s to %s", before, s.URL())
	}
	select {
	case <-again:
	case <-time.After(patience):
		t.Fatalf("the old client did not reconnect: %v", nc.LastError())
	}
	mustHold(t, s.URL())
}

func TestConfigFileBringsUsersAndPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nats.conf")
	const text = `
port: 1
jetstream { store_dir: "/nonexistent" }
authorization { users: [
  {user: producer, password: p, permissions: {publish: "onebell.request.>"}}
] }`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Start(t, Config(path))
	if _, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a user: %v", err)
	}
	denied := make(chan error, 1)
	nc, _ := connect(t, s.URL(), nats.UserInfo("producer", "p"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err := nc.Publish("elsewhere", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Error("the publish was not denied")
	}
}

func TestKilledProcessKeepsStreams(t *testing.T) {
	p := StartProcess(t)
	_, js := connect(t, p.URL())
	publishOne(t, js)
	p.Kill(t)
	if _, err := nats.Connect(p.URL()); err == nil {
		t.Error("connected to a killed broker")
	}
	p.Restart(t)
	mustHold(t, p.URL())
}

func TestFrozenProcessAnswersNothingUntilThawed(t *testing.T) {
	p := StartProcess(t)
	_, js := connect(t, p.URL())
	publishOne(t, js)
	p.Freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := js.Publish(ctx, "s.b", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen broker answered: %v", err)
	}
	p.Thaw(t)
	mustHold(t, p.URL())
}
