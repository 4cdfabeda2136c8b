package wire

import (
	"maps"
	"slices"
	"strings"
)

// forbidden are headers by which the broker acts on other messages than the one that carries them: publishing on another caller's subject
// (schedules), wiping the stream (roll-up), letting a request vanish (TTL). The stream has these switched off; a message that
// carries one was not meant for it. See github.com/nats-io/nats-architecture-and-design, adr/ADR-51.md (schedules) and adr/ADR-43.md (TTL),
// and docs.nats.io/nats-concepts/jetstream/headers.
var forbidden = []string{"nats-rollup", "nats-schedule", "nats-ttl"}

// CheckHeaders refuses headers that a request must not carry; nats.Header fits. The error is a *Refusal.
func CheckHeaders(h map[string][]string) error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		lower := strings.ToLower(strings.TrimSpace(name))
		for _, prefix := range forbidden {
			if strings.HasPrefix(lower, prefix) {
				return refuse(CodeHeaderForbidden, "header "+prefix,
					"requests must not carry Nats-Rollup, Nats-Schedule…, Nats-Scheduler or Nats-TTL; for a later send use not_before, for a limit expires_at")
			}
		}
	}
	return nil
}

// Carrier reads and writes trace headers as OpenTelemetry's propagators want them; nats.Header converts to it. Names are compared without regard
// to case, because nats.go keeps them as they were written.
type Carrier map[string][]string

// Get returns the first value of that name, "" if there is none.
func (c Carrier) Get(name string) string {
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if strings.EqualFold(k, name) && len(c[k]) > 0 {
			return c[k][0]
		}
	}
	return ""
}

// Set replaces every value of that name, however it is spelled.
func (c Carrier) Set(name, value string) {
	for k := range c {
		if strings.EqualFold(k, name) {
			delete(c, k)
		}
	}
	c[name] = []string{value}
}

// Keys returns the names in the carrier.
func (c Carrier) Keys() []string { return slices.Sorted(maps.Keys(c)) }

// Traceparent returns the W3C trace context of the headers, or "" if there is none that is well-formed. It is no part of a
// request's meaning, so a bad one is not refused.
func Traceparent(h map[string][]string) string {
	v := Carrier(h).Get("traceparent")
	const size = 55 // version-trace-parent-flags, w3.org/TR/trace-context section 3.2
	if len(v) > size && v[:2] != "00" && v[size] == '-' {
		v = v[:size] // a later version may append members
	}
	if len(v) != size || v[2] != '-' || v[35] != '-' || v[52] != '-' || v[:2] == "ff" {
		return ""
	}
	version, trace, parent, flags := v[:2], v[3:35], v[36:52], v[53:]
	for _, part := range []string{version, trace, parent, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	if strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "" {
		return ""
	}
	return v
}
