package dispatch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
)

// cluster starts n brokers that know each other and returns a connection to one of them.
func cluster(t *testing.T, n int) jetstream.JetStream {
	t.Helper()
	routes := make([]string, n)
	for i := range routes {
		port, err := local.FreePort(0)
		if err != nil {
			t.Fatal(err)
		}
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port)
	}
	var url string
	for i, route := range routes {
		config := fmt.Sprintf("server_name: s%d\njetstream: enabled\ncluster { name: c, listen: %q, routes: [%s] }\n",
			i, strings.TrimPrefix(route, "nats://"), strings.Join(routes, ", "))
		path := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		url = natstest.Start(t, natstest.Config(path)).URL()
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestStreamsOfAClusterHaveThreeReplicas(t *testing.T) {
	t.Parallel()
	js := cluster(t, 3)
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); { // the servers have to find each other first
		if err = dispatch.EnsureStreams(tryFor(t), js, true); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{wire.RequestStream, wire.EventStream} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().Config.Replicas; got != 3 {
			t.Errorf("%s has %d replicas", name, got)
		}
	}
}

func TestAClusterTooSmallIsNotGivenASingleCopy(t *testing.T) {
	t.Parallel()
	js := cluster(t, 2)
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err = dispatch.EnsureStreams(tryFor(t), js, true); err == nil || strings.Contains(err.Error(), "start them, or create stream") {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), wire.RequestStream) || !strings.Contains(err.Error(), "start them, or create stream") {
		t.Errorf("created in a cluster of two: %v", err)
	}
}

// tryFor bounds one try: without a leader the broker does not answer.
func tryFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}
