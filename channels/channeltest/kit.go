package channeltest

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// Peer is the provider's side: it speaks the protocol, commits the fault it was started with, and keeps the ledger.
// Its methods are safe for concurrent use.
type Peer interface {
	// Arrivals returns, oldest first, every request that came through whole, so that a provider could have acted on it,
	// whatever the peer then replied (HTTP: headers and body; SMTP: the final dot).
	Arrivals() []Arrival
	// Connections returns how many connections the peer has accepted.
	Connections() int
}

// Arrival is one whole request in a peer's ledger.
type Arrival struct {
	Key       string // the effect key as the provider saw it; "" where the protocol shows none
	Recipient string // as the provider saw it; comparable with Subject.Recipient through Subject.SameRecipient
	Body      []byte // what must be the same on every attempt
}

// Env is what a subject is started with.
type Env struct {
	Fault   Fault         // what the peer does; FaultNone: it accepts everything
	Skip    int           // so many exchanges are met without the fault first, on a connection that stays open where the protocol has that
	Timeout time.Duration // the AttemptTimeout that the channel's contract must have
	Log     *slog.Logger  // for channels that log
}

// Subject is a channel and the peer it talks to. Whatever New opened is closed by t.Cleanup; a channel that is an
// io.Closer is closed by the kit.
type Subject struct {
	Channel   channels.Channel
	Peer      Peer
	Recipient func(i int) string // the i-th of many distinct recipients at this peer, in normal form
	// SameRecipient says whether an arrival's recipient is that one; nil: they are compared as strings.
	SameRecipient func(arrived, recipient string) bool
	// Canaries are strings that must appear in no outcome, error or log: what would betray recipient or secret.
	Canaries []string
}

// Case is one line of the table that a type declares: what Send says about a fault, and what really reached the peer.
type Case struct {
	Fault    Fault
	Warm     bool // the fault meets the second exchange, after a successful one
	Result   channels.Result
	Or       []channels.Result // other results that timing may bring, each as honest
	Phases   []channels.Phase  // any of these
	Code     string            // "": not compared
	Arrivals int               // whole requests that this one Send put on the wire: 0 or 1
}

// BadInput is a request that must be refused at admission. An empty Recipient or a nil Content stands for a good one.
type BadInput struct {
	Name      string
	Recipient string
	Content   json.RawMessage
	Code      string // the refusal's code
	Field     string // the refusal's field; "": not compared
}

// Kit describes one channel type to Run.
type Kit struct {
	New       func(t *testing.T, env Env) Subject
	Cases     []Case
	Exempt    map[Fault]string // faults that the protocol cannot show, each with the reason
	EffectKey func(i int) string
	Content   func(i int) json.RawMessage // the i-th of many distinct contents; its Rendered bytes must hold Marker(i)
	Bad       []BadInput
}

// Run holds a channel type to the promises of package channels.
func Run(t *testing.T, k Kit) {
	r := &runner{kit: k}
	t.Run("contract", r.contract)
	t.Run("admission", r.admission)
	t.Run("bad input", r.badInput)
	t.Run("faults", r.faults)
	t.Run("replay", r.replay)
	t.Run("context", r.contexts)
	t.Run("parallel", r.parallel)
	t.Logf("channeltest: %d checks of %d faults", r.checks.Load(), len(k.Cases))
}
