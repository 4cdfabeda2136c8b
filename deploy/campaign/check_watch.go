package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
)

// sighting is an intent as somebody saw it on the way.
type sighting struct {
	id         string
	state      string
	generation int32
	at         time.Time
}

// watcher asks the admin API on the way, whichever dispatcher answers, and keeps what changed.
type watcher struct {
	addrs func() []string // of the admin APIs that may answer

	mu   sync.Mutex
	last map[string]sighting
	seen []sighting
}

func newWatcher(addrs func() []string) *watcher {
	return &watcher{addrs: addrs, last: map[string]sighting{}}
}

const (
	watchEvery    = 700 * time.Millisecond
	watchPatience = 2 * time.Second
)

// run looks until ctx ends. One look ends before the next begins, so that what is seen is in order.
func (w *watcher) run(ctx context.Context) {
	for pause(ctx, watchEvery) {
		for _, addr := range w.addrs() {
			if w.look(ctx, addr) == nil {
				break
			}
		}
	}
}

func (w *watcher) look(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	api, err := admin.NewClient("http://"+addr, "", nil)
	if err != nil {
		return err
	}
	for q := (admin.Query{Limit: 500}); ; {
		page, err := api.Intents(ctx, q)
		if err != nil {
			return err
		}
		w.keep(page.Intents, time.Now())
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			return nil
		}
	}
}

func (w *watcher) keep(list []admin.Intent, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range list {
		s := sighting{in.ID, in.State, in.Generation, now}
		if last, ok := w.last[in.ID]; ok && last.state == s.state && last.generation == s.generation {
			continue
		}
		w.last[in.ID] = s
		w.seen = append(w.seen, s)
	}
}

// sightings is what was seen, in order.
func (w *watcher) sightings() []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]sighting(nil), w.seen...)
}

// admins is where the dispatchers that live, or are said to, have their admin APIs.
func (r *round) admins() []string {
	var out []string
	for _, s := range r.slots {
		s.mu.Lock()
		for _, d := range s.lives {
			if addr := d.log.admin(); addr != "" && d.log.ending().IsZero() {
				out = append(out, addr)
			}
		}
		s.mu.Unlock()
	}
	return out
}

// readMetrics is the metrics pages of those who answer.
func readMetrics(ctx context.Context, addrs []string) string {
	var text strings.Builder
	for _, addr := range addrs {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
		if err != nil {
			continue
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(&text, res.Body) // what could be read is searched
			_ = res.Body.Close()
		}
	}
	return text.String()
}

// secrets are the passwords and keys that the dispatchers were given.
func (r *round) secrets() []string { return []string{campaignSecret, brokerPassword, databasePassword} }
