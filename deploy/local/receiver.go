package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// ReceiverOptions says how a Receiver is run.
type ReceiverOptions struct {
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Script decides what becomes of each call; nil takes all.
	Script Script
	// Log hears what goes wrong with a connection; nil is silent.
	Log *slog.Logger
}

// Call is one request that a Receiver got whole.
type Call struct {
	// ID counts arrivals from 1.
	ID      int         `json:"id"`
	At      time.Time   `json:"at"`
	Path    string      `json:"path"`
	Key     string      `json:"idempotency_key"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
	// Applied says that the call had its effect: false for a repetition of a key, and for a refused call.
	Applied bool `json:"applied"`
	// Status is the answer's, also of one that was lost.
	Status int `json:"status"`
}

// Receiver takes webhooks with POST on every path and applies each Idempotency-Key once, as
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/ describes; a call without a key is applied
// whenever it comes. A page at / and JSON at /calls show what came. Its methods may be called concurrently.
type Receiver struct {
	script  Script
	http    *http.Server
	addr    string
	serving sync.WaitGroup

	deciding sync.Mutex // held while the script runs, which may look at what has come
	arrivals int        // under deciding

	mu      sync.Mutex
	kept    []Call
	bodies  map[string][]byte // what each key was applied with
	changed chan struct{}     // closed and replaced at each call
}

// maxBody bounds a call; what is longer is refused.
const maxBody = 1 << 20

// NewReceiver starts a Receiver.
func NewReceiver(opts ReceiverOptions) (*Receiver, error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l, err := net.Listen("tcp", address(opts.Port))
	if err != nil {
		return nil, fmt.Errorf("receiver: %w", err)
	}
	r := &Receiver{script: opts.Script, addr: l.Addr().String(), bodies: map[string][]byte{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", r.receive)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { page(w, receiverPage, r.Calls()) })
	mux.HandleFunc("GET /calls", func(w http.ResponseWriter, _ *http.Request) { list(w, r.Calls()) })
	r.http = &http.Server{Handler: hardened(mux), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	r.serving.Go(func() { _ = r.http.Serve(l) }) // ends when closed
	return r, nil
}

// URL is where calls go, any path after it; it is the page for people, too.
func (r *Receiver) URL() string { return "http://" + r.addr + "/" }

// Close stops listening and breaks what is open. Safe to call twice.
func (r *Receiver) Close() error {
	err := r.http.Close()
	r.serving.Wait()
	return err
}

// Calls is what has come, oldest first: calls whose reply was lost, repetitions and refused ones included.
func (r *Receiver) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kept)
}

// Wait returns what has come as soon as that is n calls, or the context's error.
func (r *Receiver) Wait(ctx context.Context, n int) ([]Call, error) {
	for {
		r.mu.Lock()
		kept, changed := slices.Clone(r.kept), r.changed
		r.mu.Unlock()
		if len(kept) >= n {
			return kept, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return kept, fmt.Errorf("%d of %d calls came: %w", len(kept), n, ctx.Err())
		}
	}
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	call := Call{At: time.Now().UTC(), Path: req.URL.Path, Key: req.Header.Get("Idempotency-Key"), Headers: req.Header}
	fate := r.decide(&call)
	if fate.kind == drop {
		panic(http.ErrAbortHandler) // breaks the connection, the body unread
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		http.Error(w, fmt.Sprintf("the body is longer than %d bytes", maxBody), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		return // the sender broke off: nothing happened
	}
	call.Body = string(body)
	r.apply(&call, body, fate)
	if fate.kind == loseReply {
		panic(http.ErrAbortHandler)
	}
	if fate.kind == answer {
		http.Error(w, fate.text, call.Status)
		return
	}
	if !call.Applied {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.WriteHeader(call.Status)
}

func (r *Receiver) decide(call *Call) Fate {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	r.arrivals++
	call.ID = r.arrivals
	if r.script == nil {
		return Take()
	}
	return r.script(Arrival{N: call.ID, To: call.Path, Key: call.Key})
}

// apply records the call, and its effect where it has one.
func (r *Receiver) apply(call *Call, body []byte, fate Fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, seen := r.bodies[call.Key]
	switch {
	case fate.kind == answer:
		call.Status = fate.code
	case !seen:
		call.Status, call.Applied = http.StatusOK, true
		if call.Key != "" {
			r.bodies[call.Key] = body
		}
	case !bytes.Equal(first, body): // the same key for another meaning is the sender's mistake
		call.Status = http.StatusUnprocessableEntity
	default:
		call.Status = http.StatusOK
	}
	r.kept = keep(r.kept, *call)
	close(r.changed)
	r.changed = make(chan struct{})
}
