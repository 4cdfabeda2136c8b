//go:build onebell_faults

package fault

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Built says whether this binary follows plans.
const Built = true

// Environment of a binary with faults.
const (
	planEnv   = "FAULT_PLAN"   // "point:n:action" with commas between: at the n-th pass of the point, "kill" or "stop" the process
	ledgerEnv = "FAULT_LEDGER" // a file that gets a line "point reached" at a point's first pass, and "point action" before an action
)

// plan is what the environment asks for, and what was passed so far.
type plan struct {
	mu     sync.Mutex
	ledger *os.File
	acts   map[Point]map[int]syscall.Signal
	passed map[Point]int
}

var current = sync.OnceValue(func() *plan {
	p, err := read(os.Getenv(planEnv), os.Getenv(ledgerEnv))
	if err != nil {
		fmt.Fprintf(os.Stderr, "fault: %v\n", err)
		os.Exit(2)
	}
	return p
})

func read(text, ledger string) (*plan, error) {
	p := &plan{acts: map[Point]map[int]syscall.Signal{}, passed: map[Point]int{}}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		field := strings.Split(part, ":")
		if len(field) != 3 {
			return nil, fmt.Errorf("%s: %q is not point:n:action", planEnv, part)
		}
		n, err := strconv.Atoi(field[1])
		signal, ok := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[field[2]]
		if err != nil || n < 1 || !ok {
			return nil, fmt.Errorf("%s: %q wants a count from 1 and kill or stop", planEnv, part)
		}
		at := Point(field[0])
		if p.acts[at] == nil {
			p.acts[at] = map[int]syscall.Signal{}
		}
		p.acts[at][n] = signal
	}
	if ledger == "" {
		return p, nil
	}
	var err error
	p.ledger, err = os.OpenFile(ledger, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	return p, err
}

// At marks a step and does what the plan says of this pass.
func At(at Point) {
	p := current()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed[at]++
	if p.passed[at] == 1 {
		p.note(at, "reached")
	}
	switch p.acts[at][p.passed[at]] {
	case syscall.SIGKILL:
		p.note(at, "kill")
		end(syscall.SIGKILL)
	case syscall.SIGSTOP:
		p.note(at, "stop")
		end(syscall.SIGSTOP)
	}
}

// note appends one line; such a write is whole or absent, also when several processes share the file.
func (p *plan) note(at Point, what string) {
	if p.ledger != nil {
		_, _ = fmt.Fprintf(p.ledger, "%s %s %d\n", at, what, os.Getpid())
	}
}

// end signals this process and returns only after the kernel has done it, and undone it: the thread that asks is not always the first one
// to stand still, and what comes after the point must not happen meanwhile.
func end(s syscall.Signal) {
	again := make(chan os.Signal, 1)
	if s == syscall.SIGSTOP {
		signal.Notify(again, syscall.SIGCONT)
		defer signal.Stop(again)
	}
	_ = syscall.Kill(os.Getpid(), s)
	<-again
}
