package channels

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Entry is a channel instance under its configured name.
type Entry struct {
	Name     string // instance name, the <channel> token of subjects
	Type     string // "smtp", "webhook" …
	Channel  Channel
	Settings Settings
}

// Registry holds the configured channel instances. It is filled before use and read-only afterwards, so that reading
// it concurrently is safe.
type Registry struct{ entries map[string]Entry }

// NewRegistry returns a registry of the given entries, or an error that names a contract that cannot be kept.
func NewRegistry(entries ...Entry) (*Registry, error) {
	r := &Registry{entries: make(map[string]Entry, len(entries))}
	for _, e := range entries {
		if _, ok := r.entries[e.Name]; ok {
			return nil, fmt.Errorf("channel %q is configured twice; give each instance its own name", e.Name)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("channel %q: %w", e.Name, err)
		}
		r.entries[e.Name] = e
	}
	return r, nil
}

// Lookup returns the entry of that name.
func (r *Registry) Lookup(name string) (Entry, bool) {
	e, ok := r.entries[name]
	return e, ok
}

// All returns the entries ordered by name.
func (r *Registry) All() []Entry {
	out := make([]Entry, 0, len(r.entries))
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		out = append(out, r.entries[name])
	}
	return out
}

// instanceName is what fits as a token of a NATS subject; it is the grammar of channel names in requests, too.
var instanceName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

func (e Entry) check() error {
	if !instanceName.MatchString(e.Name) {
		return errors.New("a channel's name is 1 to 32 of a-z, 0-9, _ and -")
	}
	if e.Channel == nil {
		return errors.New("the entry holds no channel")
	}
	c := e.Channel.Contract()
	if err := c.check(); err != nil {
		return err
	}
	if _, ok := e.Channel.(Looker); c.LookUp == LookUpPull && !ok {
		return errors.New("the contract says look-up by pull, but the channel cannot look up")
	}
	return e.Settings.check()
}

func (c Contract) check() error {
	switch {
	case c.KeyFormat == "":
		return errors.New("the contract names no key format")
	case c.AttemptTimeout <= 0:
		return errors.New("the attempt timeout must be positive (TIMEOUT)")
	case c.Guarantee != Keyed && c.Guarantee != Replaceable && c.Guarantee != DuplicateVisible:
		return fmt.Errorf("unknown guarantee %q", c.Guarantee)
	case c.Guarantee == Keyed && (c.KeyField == "" || c.KeyWindow <= 0):
		return errors.New("a keyed channel needs a key field and a positive key window (KEY_WINDOW)")
	case c.Guarantee == Replaceable && c.CollapseField == "":
		return errors.New("a replaceable channel needs a collapse field")
	case (c.CollapseField == "") != (c.CollapseFormat == "") || (c.CollapseField == "") != (c.CollapseScope == CollapseNone):
		return errors.New("a collapse field, its format and its scope go together")
	case c.LookUp != LookUpNone && c.LookUp != LookUpPull && c.LookUp != LookUpEvents:
		return fmt.Errorf("unknown kind of look-up %q", c.LookUp)
	case c.MaxContentBytes < 0 || c.MinTTL < 0 || c.MaxTTL < 0 || c.MaxTTL > 0 && c.MinTTL > c.MaxTTL:
		return errors.New("the contract's limits contradict each other")
	}
	return nil
}

func (s Settings) check() error {
	switch {
	case s.Concurrency < 1:
		return errors.New("CONCURRENCY must be at least 1")
	case s.MaxAttempts < 1:
		return errors.New("MAX_ATTEMPTS must be at least 1")
	case s.Rate < 0 || s.MaxAge < 0:
		return errors.New("RATE and MAX_AGE must not be negative; 0 means no limit")
	case s.OnUnknown != "" && s.OnUnknown != OnUnknownResend && s.OnUnknown != OnUnknownHold:
		return fmt.Errorf("unknown ON_UNKNOWN %q; it is resend or hold", s.OnUnknown)
	}
	return nil
}
