package sandbox

import (
	"bytes"
	"slices"
	"sync"

	"github.com/onebell/onebell/channels"
)

// Call is one whole request in the ledger.
type Call struct {
	Key       string // effect key
	Collapse  string
	Recipient string
	Body      []byte
	Applied   bool // it had an effect: not a repeat that a keyed provider drops, nor one that the script lets fail
}

// ledger keeps what a provider would have seen. A nil one keeps nothing.
type ledger struct {
	guarantee channels.Guarantee

	mu          sync.Mutex
	connections int
	calls       []Call
	applied     map[string]bool // keys
}

func (l *ledger) connect() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connections++
}

func (l *ledger) arrive(a channels.Attempt, applies bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if applies && l.guarantee == channels.Keyed && l.applied[a.EffectKey] {
		applies = false
	}
	if applies {
		if l.applied == nil {
			l.applied = map[string]bool{}
		}
		l.applied[a.EffectKey] = true
	}
	l.calls = append(l.calls, Call{Key: a.EffectKey, Collapse: a.CollapseKey, Recipient: a.Recipient, Body: bytes.Clone(a.Rendered), Applied: applies})
}

// Calls returns, oldest first, every request that came through whole.
func (c *Channel) Calls() []Call {
	if c.ledger == nil {
		return nil
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	return slices.Clone(c.ledger.calls)
}

// Shown returns what recipients see: each effect, or, of a replaceable channel, the last one of each recipient and collapse
// key.
func (c *Channel) Shown() []Call {
	type slot struct{ recipient, collapse string }
	at := map[slot]int{}
	var shown []Call
	for _, call := range c.Calls() {
		if !call.Applied {
			continue
		}
		s := slot{call.Recipient, call.Collapse}
		if i, ok := at[s]; ok && call.Collapse != "" && c.contract.Guarantee == channels.Replaceable {
			shown[i] = call
			continue
		}
		at[s] = len(shown)
		shown = append(shown, call)
	}
	return shown
}

// Attempts returns how many sends began.
func (c *Channel) Attempts() int {
	if c.ledger == nil {
		return 0
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	return c.ledger.connections
}
