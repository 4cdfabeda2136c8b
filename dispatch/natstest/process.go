//go:build unix

package natstest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/onebell/onebell/deploy/local"
)

// childEnv tells a test binary that it is a broker, and how to run it.
const childEnv = "ONEBELL_NATSTEST_CHILD"

const readyLine = "ready"

// ServeIfChild returns at once unless this process was started by StartProcess: then it is the broker and never
// returns. Call it first in TestMain.
func ServeIfChild() {
	text, isChild := os.LookupEnv(childEnv)
	if !isChild {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "natstest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text string) error {
	var opts local.NATSOptions
	if err := json.Unmarshal([]byte(text), &opts); err != nil {
		return err
	}
	n, err := local.StartNATS(opts)
	if err != nil {
		return err
	}
	fmt.Println(readyLine)
	// The pipe ends when the test's process does, however that ends.
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, n.Close())
}

// Process is a broker in a process of its own. Its methods are for one goroutine.
type Process struct {
	opts  local.NATSOptions
	cmd   *exec.Cmd
	stdin io.Closer
	ended func() error // waits for the child's end, as often as asked
}

// StartProcess runs a broker in a child, which is this test binary again: TestMain must call ServeIfChild. It is killed
// when the test ends.
func StartProcess(t testing.TB, opts ...Option) *Process {
	t.Helper()
	p := &Process{opts: options(t, opts)}
	var err error
	t.Cleanup(p.end)
	for range 3 { // a port can be taken between the look and the start
		if p.opts.Port, err = local.FreePort(0); err != nil {
			break
		}
		if err = p.start(t); err == nil {
			return p
		}
		p.end()
	}
	t.Fatalf("natstest: %v", err)
	return nil
}

func (p *Process) start(t testing.TB) error {
	t.Helper()
	text, err := json.Marshal(p.opts)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	p.cmd, p.stdin, p.ended = cmd, stdin, sync.OnceValue(cmd.Wait)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != readyLine {
		return fmt.Errorf("the child did not become a broker (%q, %w); does TestMain call natstest.ServeIfChild?", line, err)
	}
	return nil
}

// URL is where clients connect; with Config add the user that the configuration demands.
func (p *Process) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", p.opts.Port) }

// Freeze stops the process where it stands (SIGSTOP): connections stay open and nothing answers. It returns when the
// last thread has stopped.
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("natstest: the broker did not stop but ended (%v, %v)", status, err)
		}
		return
	}
}

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw(t testing.TB) { t.Helper(); p.signal(t, syscall.SIGCONT) }

// Kill ends the process with SIGKILL and returns when it is gone. Restart brings it back.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.end()
}

// Restart kills the process where it runs and starts another on the same port with the same streams.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.end()
	if err := p.start(t); err != nil {
		t.Fatalf("natstest: %v", err)
	}
}

func (p *Process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("natstest: %v", err)
	}
}

// end kills the child, frozen or not, and reaps it.
func (p *Process) end() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only where it is dead already
	_ = p.ended()            // says "killed"
	_ = p.stdin.Close()
}
