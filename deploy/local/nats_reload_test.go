package local

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestReloadTakesAPermissionAway(t *testing.T) {
	const text = `accounts { A { jetstream: enabled, users: [ { user: ada, password: secret, permissions: { publish: [%s] } } ] } }`
	write := func(path, subjects string) {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, text, subjects), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	write(path, `"a", "b"`)
	n, err := StartNATS(NATSOptions{ConfigFile: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	denied := make(chan error, 10)
	nc, err := nats.Connect(n.URL(), nats.UserInfo("ada", "secret"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	write(path, `"a"`)
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	for {
		if err := nc.Publish("b", nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-denied:
			return
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("the permission was not taken away")
		}
	}
}
