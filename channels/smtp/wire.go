package smtp

import (
	"errors"
	"net"
	"sync"
	"time"
)

// maxReply bounds what a server may say in one step, in bytes; a certificate chain fits in.
const maxReply = 256 << 10

var errFlood = errors.New("the server said too much")

// wire is a connection whose every step has a deadline and a bound, and which knows how much was handed to the kernel.
// One goroutine uses it at a time; kill alone may be called from another.
type wire struct {
	net.Conn
	room int   // bytes that may still be read in this step
	sent int64 // bytes written since the connection was opened

	mu     sync.Mutex
	killed bool
}

// step opens the next step: it ends at that time, and not later even if the peer trickles.
func (w *wire) step(until time.Time) {
	w.room = maxReply
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.killed {
		_ = w.SetDeadline(until) // fails on a closed connection only, and then so does the step
	}
}

// kill ends the step that is under way, and all later ones.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killed = true
	_ = w.SetDeadline(time.Unix(1, 0))
}

func (w *wire) Read(p []byte) (int, error) {
	if w.room <= 0 {
		return 0, errFlood
	}
	n, err := w.Conn.Read(p[:min(len(p), w.room)])
	w.room -= n
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.sent += int64(n)
	return n, err
}
