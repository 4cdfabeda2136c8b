package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that was started and may have ended.
type process struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and was reaped
	err  error         // how it ended; read after done
}

// startProcess starts cmd from a thread that lives as long as the child: the kernel's "die with the parent" looks at the
// thread that forked, and Go ends threads when it likes.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// stop signals the child and waits for its end. When ctx ends first it kills the child and says so.
func (p *process) stop(ctx context.Context, signal syscall.Signal) error {
	if err := p.signal(signal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("%s did not stop in time and was killed: %w", p.cmd.Path, ctx.Err())
}

// signal is no error for a child that has ended.
func (p *process) signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.cmd.Path, err)
	}
	return nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
