package main

import (
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/retention"
)

// retention derives the windows in which things are kept. It refuses those in which a key would be forgotten while a request under it can
// still be retried, and those that could not be kept to.
func (c *Config) retention(r *channels.Registry) (retention.Windows, error) {
	var retry, lease, window time.Duration
	for _, e := range r.All() {
		contract := e.Channel.Contract()
		retry, lease, window = max(retry, e.Settings.MaxAge), max(lease, intents.LeaseFor(contract.AttemptTimeout)), max(window, contract.KeyWindow)
	}
	least := retention.KeysAtLeast(time.Duration(c.Horizon), retry, lease, window)
	w := retention.Windows{Keys: time.Duration(c.KeepKeys), Contents: time.Duration(c.KeepContent), Intents: time.Duration(c.KeepIntents)}
	if w.Keys == 0 {
		w.Keys = least
	}
	switch {
	case w.Keys < least:
		return w, configError("ONEBELL_KEEP_KEYS is too short: a request can still be retried " + least.String() + " after its fact (horizon, longest retry, lease and key window together); raise it or unset it")
	case w.Intents < w.Keys:
		return w, configError("ONEBELL_KEEP_INTENTS is shorter than keys are kept (" + w.Keys.String() + "); raise it")
	case w.Contents > w.Intents:
		return w, configError("ONEBELL_KEEP_CONTENT is longer than ONEBELL_KEEP_INTENTS, with which contents go at the latest; lower it, or raise the other")
	}
	return w, nil
}
