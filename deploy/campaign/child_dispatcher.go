package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// dispatcher is one onebell process, from its start to its end.
type dispatcher struct {
	cmd   *exec.Cmd
	log   *logbook
	ended func() error
	done  chan struct{} // closed when it has ended
}

// order says how a dispatcher is run.
type order struct {
	binary string
	env    []string
	wrap   []string // a command that runs it, as in a shell with a limit; nil: none
}

// startDispatcher starts a process; it need not serve yet.
func startDispatcher(o order) (*dispatcher, error) {
	args := append(append([]string{}, o.wrap...), o.binary, "serve")
	d := &dispatcher{cmd: exec.Command(args[0], args[1:]...), log: &logbook{}, done: make(chan struct{})}
	d.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, o.env...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	var err error
	if d.ended, err = launch(d.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = d.ended()
		d.log.end(time.Now())
		close(d.done)
	}()
	return d, nil
}

func (d *dispatcher) signal(s syscall.Signal) { _ = d.cmd.Process.Signal(s) } // fails only where it has ended

// kill ends it, and reports whether that is what ended it.
func (d *dispatcher) kill() bool {
	d.signal(syscall.SIGKILL)
	<-d.done
	return d.killed()
}

// killed reports whether it ended by SIGKILL. It waits for the end.
func (d *dispatcher) killed() bool {
	var exit *exec.ExitError
	if !errors.As(d.ended(), &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// drain tells it to stop and waits until it has, or kills it when that takes longer than patience.
func (d *dispatcher) drain(patience time.Duration) error {
	d.signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(patience):
		d.kill()
		return fmt.Errorf("a dispatcher did not end within %v of SIGTERM:\n%s", patience, d.log.tail())
	}
	return nil // how it ended is no matter: the database may be away just then, and that it says so is right
}

// serves waits until it serves, and says where its admin API is.
func (d *dispatcher) serves(ctx context.Context) (admin string, err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if admin := d.log.admin(); admin != "" {
			return admin, nil
		}
		select {
		case <-d.done:
			return "", fmt.Errorf("the dispatcher ended: %w\n%s", d.ended(), d.log.tail())
		case <-ctx.Done():
			return "", fmt.Errorf("the dispatcher does not serve: %w\n%s", ctx.Err(), d.log.tail())
		case <-tick.C:
		}
	}
}

// logbook keeps what a process wrote, and when it ended.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
	over time.Time
}

var (
	servesLine = regexp.MustCompile(`"msg":"onebell serves".*"admin":"([^"]*)"`)
	ownerField = regexp.MustCompile(`"owner":"([^"]+)"`)
)

// Write takes a piece of the log.
func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) end(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = at
}

func (l *logbook) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}

func (l *logbook) find(what *regexp.Regexp) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := what.FindSubmatch(l.text.Bytes()); m != nil {
		return string(m[1])
	}
	return ""
}

func (l *logbook) admin() string { return l.find(servesLine) }

// owner is the name under which the process claimed.
func (l *logbook) owner() string { return l.find(ownerField) }

// ending is when the process ended; zero while it runs.
func (l *logbook) ending() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// tail is the end of the log, for errors.
func (l *logbook) tail() string {
	text := l.bytes()
	return string(text[max(0, len(text)-2000):])
}
