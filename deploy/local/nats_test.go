package local

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func startNATS(t *testing.T, opts NATSOptions) *NATS {
	t.Helper()
	n, err := StartNATS(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// onStream runs a step with a stream's client.
func onStream(t *testing.T, n *NATS, step func(jetstream.Stream, jetstream.JetStream)) {
	t.Helper()
	nc, err := nats.Connect(n.URL(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	step(stream, js)
}

func TestBrokersFolderKeepsItsStreams(t *testing.T) {
	dir := t.TempDir()
	n := startNATS(t, NATSOptions{Dir: dir, Durable: true})
	onStream(t, n, func(_ jetstream.Stream, js jetstream.JetStream) {
		if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
			t.Fatal(err)
		}
	})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again := startNATS(t, NATSOptions{Dir: dir})
	onStream(t, again, func(s jetstream.Stream, _ jetstream.JetStream) {
		if msg, err := s.GetMsg(t.Context(), 1); err != nil || string(msg.Data) != "kept" {
			t.Errorf("got %v, %v", msg, err)
		}
	})
}

func TestBrokersTemporaryFolderIsRemoved(t *testing.T) {
	n := startNATS(t, NATSOptions{})
	onStream(t, n, func(jetstream.Stream, jetstream.JetStream) {})
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", n.dir, err)
	}
}

func TestBrokersBadStartsAreExplained(t *testing.T) {
	first := startNATS(t, NATSOptions{})
	if _, err := StartNATS(NATSOptions{Port: first.port}); err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("a taken port: %v", err)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte("no_such_member: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := StartNATS(NATSOptions{ConfigFile: path}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no_such_member") {
		t.Errorf("a bad configuration: %v", err)
	}
}

func TestBrokersErrorsAreLogged(t *testing.T) {
	var said bytes.Buffer
	l := natsLog{slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	l.Errorf("disk %s", "full")
	l.Fatalf("gone") // must not end the process
	for _, want := range []string{`level=ERROR msg="broker: disk full"`, `level=ERROR msg="broker: gone"`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q lacks %q", said.String(), want)
		}
	}
}

func TestNATSTakesWhatItsOptionsSay(t *testing.T) {
	n := startNATS(t, NATSOptions{MaxPayload: 2 << 20})
	nc, err := nats.Connect(n.URL(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := nc.MaxPayload(); got != 2<<20 {
		t.Errorf("the broker takes %d bytes", got)
	}
}
