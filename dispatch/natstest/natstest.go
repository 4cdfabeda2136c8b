// Package natstest gives tests a real NATS broker with JetStream: inside the test's process, or in a child that can be
// frozen and killed.
package natstest

import (
	"testing"

	"github.com/onebell/onebell/deploy/local"
)

// Option changes how a test's broker is run.
type Option func(*local.NATSOptions)

// Config starts the broker from a configuration file, for instance deploy's with its users and permissions.
func Config(path string) Option { return func(o *local.NATSOptions) { o.ConfigFile = path } }

// Durable has every message on the disk before it is acknowledged.
func Durable() Option { return func(o *local.NATSOptions) { o.Durable = true } }

// Server is a test's own broker. It is shut down when the test ends.
type Server struct{ nats *local.NATS }

// Start runs a broker on a free port of 127.0.0.1, its streams in a temporary folder.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	o := options(t, opts)
	n, err := local.StartNATS(o)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("natstest: %v", err)
		}
	})
	return &Server{nats: n}
}

func options(t testing.TB, opts []Option) local.NATSOptions {
	o := local.NATSOptions{Dir: t.TempDir()}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// URL is where clients connect; with Config add the user that the configuration demands.
func (s *Server) URL() string { return s.nats.URL() }

// Addr is host and port.
func (s *Server) Addr() string { return s.nats.Addr() }

// Shutdown ends the broker; Restart brings it back.
func (s *Server) Shutdown() { s.nats.Shutdown() }

// Restart ends the broker where it runs and starts it again on the same port with the same streams.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.nats.Restart(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
}
