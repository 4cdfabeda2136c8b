package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// killKind begins the kind of a kill at a fault point.
const killKind = "F1 kill at "

// slot is the place of one dispatcher: one process after another lives in it. Its methods are for one goroutine, logs excepted.
type slot struct {
	binary string
	env    []string
	ledger string // the file in which processes note the fault points they pass
	lease  time.Duration
	broker *link
	rnd    *rand.Rand
	record *record

	// forgetful, if not nil, is what the environment gets after the first life, and forgets a plan that every later life has, too.
	forgetful []string
	forgets   string
	windows   []string
	also      string // plan of every life

	slow []string // makes what is due wait

	mu     sync.Mutex
	lives  []*dispatcher
	faulty error // what a process did that no fault explains
}

// chaos runs one life after another until ctx ends.
func (s *slot) chaos(ctx context.Context, first ...life) {
	for ctx.Err() == nil {
		var l life
		if len(first) > 0 {
			l, first = first[0], first[1:]
		} else {
			l = drawLife(s.rnd)
		}
		d, err := s.start(l)
		if err != nil {
			s.fail(err)
			return
		}
		s.live(ctx, d, l)
		s.forget()
		if d.log.admin() == "" {
			pause(ctx, 200*time.Millisecond) // as a supervisor does with a process that cannot start
		}
	}
}

// forget ends the time in which everything is remembered for long.
func (s *slot) forget() {
	if s.forgetful != nil {
		s.windows, s.also, s.forgetful = s.forgetful, s.forgets, nil
		s.record.add("F18 windows shortened at a restart")
	}
}

func (s *slot) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faulty == nil {
		s.faulty = err
	}
}

func (s *slot) start(l life) (*dispatcher, error) {
	o := order{binary: s.binary, env: append(append([]string{}, s.env...), "FAULT_LEDGER="+s.ledger, "FAULT_PLAN="+strings.TrimPrefix(l.plan+","+s.also, ","))}
	o.env = slices.Concat(o.env, l.limits.config, s.slow, s.windows)
	if l.limits.memory != "" {
		o.env = append(o.env, "GOMEMLIMIT="+l.limits.memory)
	}
	if l.limits.descriptors > 0 {
		o.wrap = []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, l.limits.descriptors)}
	}
	d, err := startDispatcher(o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives = append(s.lives, d)
	return d, nil
}

// live takes a process through its life; when it returns the process is gone.
func (s *slot) live(ctx context.Context, d *dispatcher, l life) {
	switch l.ending {
	case killedAtPoint:
		ended(ctx, d, l.wait)
	case killedAnyhow:
		ended(ctx, d, l.wait)
	case paused:
		if !ended(ctx, d, l.wait) && ctx.Err() == nil {
			s.stand(ctx, d, l.pause, "F2 paused, shorter than a lease", true)
			ended(ctx, d, time.Second)
		}
	case pausedAtPoint:
		if s.reaches(ctx, d, "stop", l.wait) {
			s.stand(ctx, d, l.pause, "F2 paused, shorter than a lease", false)
			ended(ctx, d, time.Second)
		}
	case pausedPastLease:
		if s.reaches(ctx, d, "stop", l.wait) {
			s.stand(context.WithoutCancel(ctx), d, l.pause, "F2 paused past the lease", false)
			ended(context.WithoutCancel(ctx), d, 2*time.Second)
		}
	case partitioned:
		if !ended(ctx, d, l.wait) && ctx.Err() == nil {
			s.partition(context.WithoutCancel(ctx), d, l.pause)
		}
	case drained:
		if !ended(ctx, d, l.wait) {
			if err := d.drain(time.Minute); err != nil {
				s.fail(err)
			}
		}
	}
	s.bury(d, l)
}

// ended waits for the end of a process, or that long, or for ctx; it reports whether the process ended.
func ended(ctx context.Context, d *dispatcher, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-d.done:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

// stand keeps a process where it stands and lets it go on.
func (s *slot) stand(ctx context.Context, d *dispatcher, long time.Duration, kind string, stop bool) {
	if stop {
		d.signal(syscall.SIGSTOP)
	}
	if ended(ctx, d, long) {
		return
	}
	d.signal(syscall.SIGCONT)
	s.record.add(kind)
}

// partition keeps everything between the process and the broker for so long.
func (s *slot) partition(ctx context.Context, d *dispatcher, long time.Duration) {
	s.broker.hold(towards)
	s.broker.hold(back)
	ended(ctx, d, long)
	if kept := s.broker.release(towards) + s.broker.release(back); kept > 0 {
		s.record.add("F9 link to the broker black-holed for longer than AckWait")
	}
	ended(ctx, d, 2*time.Second)
}

// reaches waits until the process has noted the action in the ledger.
func (s *slot) reaches(ctx context.Context, d *dispatcher, action string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for pause(ctx, 20*time.Millisecond) {
		if s.noted(d, action) != "" {
			return true
		}
		select {
		case <-d.done:
			return false
		default:
		}
	}
	return false
}

// noted is the point at which the process noted the action; "": none.
func (s *slot) noted(d *dispatcher, action string) string {
	suffix := fmt.Sprintf(" %s %d", action, d.cmd.Process.Pid)
	for _, line := range ledgerLines(s.ledger) {
		if point, ok := strings.CutSuffix(line, suffix); ok {
			return point
		}
	}
	return ""
}

func ledgerLines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // nobody has written yet
	}
	var lines []string
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	return lines
}

// bury ends a process where it still runs, and counts what ended it and what it had to live with.
func (s *slot) bury(d *dispatcher, l life) {
	select {
	case <-d.done:
	default:
		d.kill()
		if s.noted(d, "kill") == "" {
			s.record.add("F1 kill anywhere")
		}
	}
	if point := s.noted(d, "kill"); point != "" {
		s.record.add(killKind + point)
	}
	log := string(d.log.bytes())
	for _, cry := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
		if strings.Contains(log, cry) {
			s.fail(fmt.Errorf("a dispatcher broke down:\n%s", d.log.tail()))
		}
	}
	switch {
	case l.limits.descriptors > 0 && strings.Contains(log, "too many open files"):
		s.record.add("F23 out of file descriptors")
	case l.limits.memory != "":
		s.record.add("F23 short of memory")
	case len(l.limits.config) > 0:
		s.record.add("other configuration at a restart")
	}
}

// end takes down what still runs, and waits for it.
func (s *slot) end() {
	s.mu.Lock()
	lives := s.lives
	s.mu.Unlock()
	for _, d := range lives {
		select {
		case <-d.done:
		default:
			d.kill()
		}
	}
}

// pause waits, or not that long when ctx ends; then it returns false.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
