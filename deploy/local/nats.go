package local

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsPatience bounds the start of the broker, which takes milliseconds.
const natsPatience = 20 * time.Second

// NATSOptions says how a local broker is run. The zero value is a throwaway one on a free port, open to everybody on
// this machine.
type NATSOptions struct {
	// Dir keeps the streams; empty: a temporary folder that Close removes.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one. A Restart keeps it.
	Port int
	// Durable has every message written through to the disk before it is acknowledged.
	Durable bool
	// ConfigFile is a broker configuration to start from (accounts, users, permissions). Address, port, JetStream's
	// folder and what else stands in these options win over it.
	ConfigFile string
	// MaxPayload is the largest message that the broker takes, in bytes; 0 leaves it to the configuration, or else the broker.
	MaxPayload int32
	// Log hears the broker's warnings and errors; nil is silent.
	Log *slog.Logger
}

// NATS is a broker inside this process, with JetStream. Its methods may be called concurrently.
type NATS struct {
	opts      NATSOptions
	dir       string
	temporary bool
	port      int

	mu  sync.Mutex
	srv *server.Server // nil while it is down
}

// StartNATS starts a broker and returns when it takes connections.
func StartNATS(opts NATSOptions) (_ *NATS, err error) {
	n := &NATS{opts: opts, dir: opts.Dir, port: opts.Port}
	if n.dir == "" {
		if n.dir, err = os.MkdirTemp("", "onebell-nats-"); err != nil {
			return nil, err
		}
		n.temporary = true
	}
	if err := n.firstStart(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// firstStart tries other ports where the caller left the choice: one can be taken between the look and the start.
func (n *NATS) firstStart() (err error) {
	if n.opts.Port != 0 {
		return n.Restart()
	}
	for range 3 {
		if n.port, err = FreePort(0); err != nil {
			return err
		}
		if err = n.Restart(); err == nil || isFree(n.port) {
			return err
		}
	}
	return err
}

// URL is where clients connect. It holds no user: with a ConfigFile that demands one, add it.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// Addr is host and port.
func (n *NATS) Addr() string { return address(n.port) }

// Restart starts the broker again on its port and streams, after a Shutdown where it runs.
func (n *NATS) Restart() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shutdown()
	opts, err := n.serverOptions()
	if err != nil {
		return err
	}
	if !isFree(n.port) {
		return errTaken(n.port)
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("the broker refuses its configuration: %w", err)
	}
	if n.opts.Log != nil {
		srv.SetLoggerV2(natsLog{n.opts.Log}, false, false, false)
	}
	srv.Start()
	if !srv.ReadyForConnections(natsPatience) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("the broker on port %d did not become ready within %s", n.port, natsPatience)
	}
	n.srv = srv
	return nil
}

// Reload has the running broker read its configuration file again, as a signal to a broker of one's own would: users and
// permissions change under connected clients.
func (n *NATS) Reload() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.srv == nil {
		return errors.New("the broker is down")
	}
	opts, err := n.serverOptions()
	if err != nil {
		return err
	}
	if err := n.srv.ReloadOptions(opts); err != nil {
		return fmt.Errorf("the broker refuses its configuration: %w", err)
	}
	return nil
}

func (n *NATS) serverOptions() (*server.Options, error) {
	opts := &server.Options{}
	if n.opts.ConfigFile != "" {
		var err error
		if opts, err = server.ProcessConfigFile(n.opts.ConfigFile); err != nil {
			return nil, fmt.Errorf("broker configuration %s: %w", n.opts.ConfigFile, err)
		}
	}
	opts.Host, opts.Port = loopback, n.port
	opts.JetStream, opts.StoreDir, opts.SyncAlways = true, n.dir, n.opts.Durable
	if n.opts.MaxPayload != 0 {
		opts.MaxPayload = n.opts.MaxPayload
	}
	opts.NoSigs = true // the process belongs to onebell
	opts.LogFile, opts.PidFile, opts.PortsFileDir = "", "", ""
	opts.HTTPPort, opts.HTTPSPort = 0, 0
	return opts, nil
}

// Shutdown ends the broker, as a restart of the machine would: clients are cut off and reconnect. Safe to call twice.
func (n *NATS) Shutdown() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shutdown()
}

func (n *NATS) shutdown() {
	if n.srv == nil {
		return
	}
	n.srv.Shutdown()
	n.srv.WaitForShutdown()
	n.srv = nil
}

// Close shuts the broker down and removes its folder where that was a temporary one. Safe to call twice.
func (n *NATS) Close() error {
	n.Shutdown()
	if n.temporary {
		return os.RemoveAll(n.dir)
	}
	return nil
}

// natsLog hands the broker's own words to slog. What it calls a notice is of no interest to a developer.
type natsLog struct{ log *slog.Logger }

func (l natsLog) Noticef(format string, v ...any) {
	l.log.Debug("broker: " + fmt.Sprintf(format, v...))
}

func (l natsLog) Warnf(format string, v ...any) { l.log.Warn("broker: " + fmt.Sprintf(format, v...)) }

func (l natsLog) Errorf(format string, v ...any) { l.log.Error("broker: " + fmt.Sprintf(format, v...)) }

func (l natsLog) Debugf(format string, v ...any) { l.log.Debug("broker: " + fmt.Sprintf(format, v...)) }
func (l natsLog) Tracef(string, ...any)          {}

// Fatalf does not end the process: the start fails by its own means.
func (l natsLog) Fatalf(format string, v ...any) { l.log.Error("broker: " + fmt.Sprintf(format, v...)) }
