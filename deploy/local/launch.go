package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errLeftovers says that the server could not start although its port was free: processes of the killed one still hold
// its data.
var errLeftovers = errors.New("the killed server's processes are still there")

// launch starts the server and waits until it says that it is ready.
func (p *Postgres) launch(ctx context.Context) (*process, error) {
	if !isFree(p.port) {
		return nil, errTaken(p.port)
	}
	leftovers := p.home.uncleanPID() != 0
	out, err := os.OpenFile(filepath.Join(p.home.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own copy
	cmd := exec.Command(filepath.Join(p.bin.Dir, "postgres"), p.arguments()...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.home.dir, environment(), p.as.attributes()
	cmd.Stdout, cmd.Stderr = out, out
	proc, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx, proc); err != nil {
		err = fmt.Errorf("PostgreSQL did not start: %w; its log ends with:\n%s", err, p.ServerLog())
		if leftovers && proc.ended() {
			return nil, errors.Join(errLeftovers, err)
		}
		return nil, errors.Join(err, proc.stop(ctx, signalImmediate))
	}
	return proc, nil
}

func (p *Postgres) arguments() []string {
	settings := map[string]string{
		"listen_addresses":        loopback,
		"port":                    strconv.Itoa(p.port),
		"unix_socket_directories": p.home.socketDir(),
		"max_connections":         "50",
		"shared_buffers":          "32MB",
		"jit":                     "off",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		// A client that was killed in the middle of a statement must not hold its locks until that statement ends.
		"client_connection_check_interval": "1s",
	}
	if !p.opts.Durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
		settings["max_wal_size"] = "256MB" // the folder may be in memory
	}
	maps.Copy(settings, p.opts.Settings)
	args := []string{"-D", p.home.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// awaitReady polls the file in which the server keeps its state, as pg_ctl does: no client library, no password.
func (p *Postgres) awaitReady(ctx context.Context, proc *process) error {
	for {
		pid, ready := p.home.serverState()
		if ready && pid == proc.pid {
			return nil
		}
		select {
		case <-proc.done:
			return fmt.Errorf("it ended at once (%v)", proc.err)
		default:
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// serverState reads postmaster.pid: the process id stands in its first line, "ready" or "standby" in its eighth.
func (h *home) serverState() (pid int, ready bool) {
	text, err := os.ReadFile(filepath.Join(h.data(), "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	lines := strings.Split(string(text), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return 0, false
	}
	return pid, len(lines) > 7 && isReady(lines[7])
}

// uncleanPID is the process id that a killed server left in its data folder, 0 where the last one ended in order.
func (h *home) uncleanPID() int {
	pid, _ := h.serverState()
	return pid
}

// environment is all that PostgreSQL's programs get: neither the caller's secrets nor its PG… variables.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
