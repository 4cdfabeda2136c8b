package channels

import (
	"fmt"
	"maps"
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
		if err := e.Channel.Contract().check(); err != nil {
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

func (c Contract) check() error {
	switch {
	case c.KeyFormat == "":
		return fmt.Errorf("the contract names no key format")
	case c.AttemptTimeout <= 0:
		return fmt.Errorf("the contract has no attempt timeout")
	case c.Guarantee == Keyed && (c.KeyField == "" || c.KeyWindow <= 0):
		return fmt.Errorf("a keyed channel needs a key field and a positive key window (KEY_WINDOW)")
	case c.Guarantee == Replaceable && (c.CollapseField == "" || c.CollapseFormat == ""):
		return fmt.Errorf("a replaceable channel needs a collapse field and its format")
	case c.Guarantee != Keyed && c.Guarantee != Replaceable && c.Guarantee != DuplicateVisible:
		return fmt.Errorf("unknown guarantee %q", c.Guarantee)
	}
	return nil
}
