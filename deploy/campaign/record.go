package main

import (
	"sync"
	"time"
)

// record is the list of faults that took effect. Safe for concurrent use.
type record struct {
	mu   sync.Mutex
	list []injected
}

// add notes a fault that has just taken effect.
func (r *record) add(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, injected{kind: kind, at: time.Now()})
}

// addAll notes faults that somebody else counted.
func (r *record) addAll(counts map[string]int) {
	for kind, n := range counts {
		for range n {
			r.add(kind)
		}
	}
}

func (r *record) all() []injected {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]injected(nil), r.list...)
}
