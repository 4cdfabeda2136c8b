package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/onebell/onebell/intents/fault"
)

// built is the binary that follows fault plans, made by the first test of a run that asks for it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// binaryWithFaults builds the binary that follows fault plans, once for all tests of this run.
func binaryWithFaults(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "onebell-faults-"); built.err != nil {
			return
		}
		// The stamp is left out: a checkout that belongs to somebody else would fail for it.
		cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", "onebell_faults", "-o", filepath.Join(built.dir, "onebell"), ".")
		if said, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, said)
		}
	})
	if built.err != nil {
		t.Fatalf("building onebell with fault points: %v", built.err)
	}
	return filepath.Join(built.dir, "onebell")
}

// forgetBinary removes what binaryWithFaults built; all tests are over.
func forgetBinary() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}

// planned is a dispatcher that follows a fault plan.
type planned struct {
	*dispatcher
	plan, ledger string
}

// planned starts a dispatcher that follows the plan. It may never come to serving.
func (w *town) planned(plan string, env []string) *planned {
	w.t.Helper()
	p := &planned{plan: plan, ledger: filepath.Join(w.t.TempDir(), "ledger")}
	p.dispatcher = w.start(exec.Command(binaryWithFaults(w.t), "serve"), append(env, "FAULT_PLAN="+plan, "FAULT_LEDGER="+p.ledger))
	return p
}

// said reports whether the process wrote of itself that it did something at a point.
func (p *planned) said(at fault.Point, what string) bool {
	raw, err := os.ReadFile(p.ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	line := fmt.Sprintf("%s %s %d", at, what, p.cmd.Process.Pid)
	return slices.Contains(strings.Split(string(raw), "\n"), line)
}

// dies waits until the process is dead, which it must be by its own SIGKILL at the point.
func (p *planned) dies(at fault.Point) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("the dispatcher with the plan %s dies", p.plan), func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL || !p.said(at, "kill") {
		p.t.Fatalf("the dispatcher with the plan %s ended with %v, and not by its SIGKILL at %s:\n%s", p.plan, p.cmd.ProcessState, at, p.log)
	}
}

// stops waits until the process stands still at the point.
func (p *planned) stops(at fault.Point) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("the dispatcher with the plan %s stands still", p.plan), func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("the dispatcher with the plan %s ended:\n%s", p.plan, p.log)
		default:
		}
		return p.said(at, "stop")
	})
}

func killAtFirst(at fault.Point) string { return string(at) + ":1:kill" }
func stopAtFirst(at fault.Point) string { return string(at) + ":1:stop" }

// goOn ends a stop.
func (p *planned) goOn() { p.signal(syscall.SIGCONT) }
