package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	superuser    = "onebell"
	databaseName = "onebell"

	// stopPatience is how long a stopping server may take before it is killed.
	stopPatience = 20 * time.Second
	// startPatience bounds one start, crash recovery included.
	startPatience = 60 * time.Second
)

// PostgresOptions says how a local PostgreSQL is run. The zero value is a throwaway server on a free port.
type PostgresOptions struct {
	// Dir keeps the data over restarts of the process; one process at a time may use it. Empty: a temporary folder
	// that Close removes.
	Dir string
	// InMemory puts the temporary folder into memory where the system has a gigabyte to spare there; creating databases
	// is many times faster then. It says nothing where Dir is set.
	InMemory bool
	// Durable makes commits survive a crash of the machine, not only one of the server. Off it is a good deal faster.
	Durable bool
	// Port on 127.0.0.1; 0 takes a free one. A Restart keeps it.
	Port int
	// Settings are server settings by name, over the small ones that this package chooses.
	Settings map[string]string
	// Log hears of starts and stops; nil is silent. What the server itself says stands in the file "log" of its folder.
	Log *slog.Logger
}

// Postgres is a local PostgreSQL server. Its methods may be called concurrently; starts and stops wait for each other.
type Postgres struct {
	opts     PostgresOptions
	as       account
	bin      Binaries
	home     *home
	port     int
	password string
	log      *slog.Logger

	mu   sync.Mutex
	proc *process // nil while the server is down
}

// StartPostgres starts a server with one empty database and waits until it takes connections. ctx bounds the start
// alone. Where no binaries are found the error is a *NotFoundError.
func StartPostgres(ctx context.Context, opts PostgresOptions) (_ *Postgres, err error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	h, err := openHome(opts.Dir, opts.InMemory, as)
	if err != nil {
		return nil, err
	}
	p := &Postgres{opts: opts, as: as, home: h, port: opts.Port, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.bin, err = FindBinaries(ctx, h.major()); err != nil {
		return nil, err
	}
	if opts.Port != 0 && !isFree(opts.Port) {
		return nil, errTaken(opts.Port)
	}
	if p.password, err = h.prepare(ctx, p.bin, opts.Durable); err != nil {
		return nil, err
	}
	if err = p.firstStart(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// firstStart tries other ports where the caller left the choice: one can be taken between the look and the start.
func (p *Postgres) firstStart(ctx context.Context) error {
	if p.opts.Port != 0 {
		return p.Restart(ctx)
	}
	var err error
	for range 3 {
		if p.port, err = FreePort(0); err != nil {
			return err
		}
		if err = p.Restart(ctx); err == nil {
			return nil
		}
	}
	return err
}

// URL is where clients connect, password included: do not log it.
func (p *Postgres) URL() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, p.password), Host: p.Addr(), Path: databaseName, RawQuery: "sslmode=disable"}
	return u.String()
}

// Addr is host and port.
func (p *Postgres) Addr() string { return address(p.port) }

// Major is the server's major version.
func (p *Postgres) Major() int { return p.bin.Major }

// Restart starts the server again on its port and data after Stop or Kill, or stops it first (fast) where it runs. It
// returns when the server takes connections. ctx bounds the wait.
func (p *Postgres) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stop(signalFast); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		proc, err := p.launch(ctx)
		if err == nil {
			p.proc = proc
			p.log.Info("PostgreSQL is up", "addr", p.Addr(), "version", p.bin.Major)
			return nil
		}
		// After a Kill the orphaned backends hold the shared memory until they notice: a start fails meanwhile.
		if !errors.Is(err, errLeftovers) || ctx.Err() != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// StopMode is how much a stopping server waits for.
type StopMode int

// The ways to stop.
const (
	// Fast ends open transactions with a rollback, tells the clients, writes everything out.
	Fast StopMode = iota
	// Immediate is a crash that the server makes itself: the next start recovers.
	Immediate
)

// Stop stops the server and returns when it has ended. No error where it is down already.
func (p *Postgres) Stop(mode StopMode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if mode == Immediate {
		return p.stop(signalImmediate)
	}
	return p.stop(signalFast)
}

// Kill ends the server's first process with SIGKILL; its backends follow when they notice.
func (p *Postgres) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stop(syscall.SIGKILL)
}

func (p *Postgres) stop(signal syscall.Signal) error {
	if p.proc == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	err := p.proc.stop(ctx, signal)
	p.proc = nil
	p.log.Info("PostgreSQL is down", "addr", p.Addr(), "signal", signal.String())
	return err
}

// Close stops the server and removes its folder where that was a temporary one. Safe to call twice.
func (p *Postgres) Close() error {
	mode := Fast
	if p.home.temporary {
		mode = Immediate // nobody will read the data again
	}
	return errors.Join(p.Stop(mode), p.home.close())
}

// ServerLog is the end of what the server itself wrote.
func (p *Postgres) ServerLog() string { return tail(filepath.Join(p.home.dir, "log"), 4096) }

// pause waits, or not that long when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// tail is the end of a file, for error messages; what cannot be read is empty.
func tail(path string, size int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(size, info.Size()))
	n, err := f.ReadAt(buf, max(0, info.Size()-size))
	if err != nil {
		return fmt.Sprintf("(log unreadable: %v)", err)
	}
	return string(buf[:n])
}
