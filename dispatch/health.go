package dispatch

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// answers is how the database answers, over all calls. It is well again when nothing has failed for a while: one kind of call
// may go through while another does not (a server that takes no writes).
type answers struct {
	mu               sync.Mutex
	well, ill, spoke time.Time // last success; last failure; when that was last told
}

const (
	convalescence = 3 * time.Second
	retelling     = 10 * time.Second
)

// note takes in how a call went; tell says that it is worth a line in the log.
func (a *answers) note(failed bool, now time.Time) (tell bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed {
		a.ill = now
		if tell = now.Sub(a.spoke) > retelling; tell {
			a.spoke = now
		}
		return tell
	}
	a.well = now
	if tell = !a.spoke.IsZero() && now.Sub(a.ill) > convalescence; tell {
		a.spoke = time.Time{}
	}
	return tell
}

func (a *answers) ready(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ill.IsZero() || a.well.After(a.ill) && now.Sub(a.ill) > convalescence
}

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
