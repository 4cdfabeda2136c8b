package main

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launch starts cmd so that it dies with the campaign, however that ends, and hears nothing of the terminal's interrupt: the campaign
// takes its children down in order. It returns what waits for the child's end, as often as asked.
func launch(cmd *exec.Cmd) (ended func() error, err error) {
	cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	started := make(chan error, 1)
	var end error
	done := make(chan struct{})
	go func() {
		// The kernel looks at the thread that forked, and Go ends threads when it likes: this one lives as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			end = cmd.Wait()
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error { <-done; return end }), nil
}
