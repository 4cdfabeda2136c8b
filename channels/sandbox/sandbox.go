// Package sandbox is a channel without a provider: each attempt ends as a script says, and a ledger keeps what a provider
// would have seen. It is for tests and demonstrations; NoOp is for measuring everything but the provider.
//
// The script comes with the content, {"script":["unknown","accepted"],"text":"…"}, or else with the configuration. The
// n-th claim of an intent (its generation) plays the n-th word, later ones the last. The words are those of Words.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onebell/onebell/channels"
)

// Config is one sandbox channel.
type Config struct {
	Guarantee channels.Guarantee // "": duplicate-visible
	KeyWindow time.Duration      // of a keyed one; 0: an hour
	Script    []string           // for contents that bring none; none: accepted
	Timeout   time.Duration      // of one attempt; required
}

// Channel plays scripts. It is safe for concurrent use. Its ledger grows with every attempt and lives as long as the
// process.
type Channel struct {
	contract channels.Contract
	script   []string
	ledger   *ledger // nil: nothing is kept
}

// New returns a sandbox, or an error that says what to mend.
func New(c Config) (*Channel, error) {
	if c.Timeout <= 0 {
		return nil, errors.New("the timeout must be positive (TIMEOUT)")
	}
	if len(c.Script) == 0 {
		c.Script = []string{"accepted"}
	}
	for _, word := range c.Script {
		if _, ok := plays[word]; !ok {
			return nil, fmt.Errorf("the script may hold %v", Words())
		}
	}
	k := channels.Contract{KeyField: "key", KeyFormat: "hex64", LookUp: channels.LookUpNone, AttemptTimeout: c.Timeout}
	switch c.Guarantee {
	case "", channels.DuplicateVisible:
		k.Guarantee, k.KeyField = channels.DuplicateVisible, ""
	case channels.Keyed:
		k.Guarantee, k.KeyScope, k.KeyWindow = channels.Keyed, "sandbox", c.KeyWindow
		if k.KeyWindow == 0 {
			k.KeyWindow = time.Hour
		}
	case channels.Replaceable:
		k.Guarantee = channels.Replaceable
		k.CollapseField, k.CollapseFormat, k.CollapseScope = "collapse", "hex64", channels.CollapseShown
	default:
		return nil, fmt.Errorf("the guarantee must be %s, %s or %s", channels.Keyed, channels.Replaceable, channels.DuplicateVisible)
	}
	return &Channel{contract: k, script: c.Script, ledger: &ledger{guarantee: k.Guarantee}}, nil
}

// NoOp returns a keyed sandbox that accepts everything at once and keeps no ledger: what a bench of the core sends to.
func NoOp() *Channel {
	return &Channel{script: []string{"accepted"}, contract: channels.Contract{
		Guarantee: channels.Keyed, KeyField: "key", KeyFormat: "hex64", KeyWindow: 24 * time.Hour, KeyScope: "no-op",
		LookUp: channels.LookUpNone, AttemptTimeout: 5 * time.Second,
	}}
}

// Contract implements channels.Channel.
func (c *Channel) Contract() channels.Contract { return c.contract }

// Validate implements channels.Channel. A recipient is any printable text of 1 to 256 bytes.
func (c *Channel) Validate(recipient string, raw json.RawMessage) (string, error) {
	if !printable(recipient) || len(recipient) > 256 {
		return "", &channels.Refusal{Code: channels.CodeRecipientInvalid, Field: "recipient", Message: "give 1 to 256 bytes of printable text"}
	}
	if _, err := parse(raw); err != nil {
		return "", err
	}
	return recipient, nil
}

// Render implements channels.Channel.
func (c *Channel) Render(m channels.Message) ([]byte, error) { return render(m.Content) }

// Send implements channels.Channel.
func (c *Channel) Send(ctx context.Context, a channels.Attempt) channels.Outcome {
	if ctx.Err() != nil {
		return channels.OutcomeNotSent(channels.PhaseNone, "canceled", "the attempt was over before it began")
	}
	p := plays[c.word(a)]
	c.ledger.connect()
	if p.arrives {
		c.ledger.arrive(a, p.applies)
	}
	if p.waits {
		ctx, cancel := context.WithTimeout(ctx, c.contract.AttemptTimeout)
		defer cancel()
		<-ctx.Done()
	}
	return p.outcome()
}

// word returns what this attempt plays. The generation counts claims, also over restarts of the process.
func (c *Channel) word(a channels.Attempt) string {
	script := c.script
	if content, err := parse(a.Rendered); err == nil && len(content.Script) > 0 {
		script = content.Script
	}
	return script[min(max(int(a.Generation)-1, 0), len(script)-1)]
}
