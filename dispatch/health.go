package dispatch

import (
	"maps"
	"slices"
	"sync"
)

// health is why the dispatcher is not ready, by subject; empty when it is. Reasons are sentences for operators and hold no data.
type health struct {
	mu      sync.Mutex
	reasons map[string]string
}

func (h *health) set(subject, reason string) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reasons == nil {
		h.reasons = map[string]string{}
	}
	_, was := h.reasons[subject]
	h.reasons[subject] = reason
	return !was
}

func (h *health) clear(subject string) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, was := h.reasons[subject]
	delete(h.reasons, subject)
	return was
}

func (h *health) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, subject := range slices.Sorted(maps.Keys(h.reasons)) {
		out = append(out, subject+": "+h.reasons[subject])
	}
	return out
}
