package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// These checks hold what was seen on the way against how it ended.

// stories is the events of each intent in the order in which they were first told.
func (a *account) stories() map[string][]wire.Event {
	out, known := map[string][]wire.Event{}, map[string]bool{}
	for _, e := range a.events {
		if e.Admitted && !known[e.ID] {
			known[e.ID] = true
			out[e.Intent] = append(out[e.Intent], e)
		}
	}
	return out
}

// changedAfterTheEnd: a terminal state is never left, whoever looks: the events, and whoever asked on the way.
func changedAfterTheEnd(a *account) (out []string) {
	stories := a.stories()
	for _, in := range a.intents {
		story := stories[in.ID]
		for i, e := range story {
			if i > 0 && intents.State(story[i-1].What).Terminal() {
				out = append(out, fmt.Sprintf("%v (%s) was told as %s and then as %s", named(in.Intent), in.ID, story[i-1].What, e.What))
			}
		}
		if state := intents.State(in.State); state.Terminal() || state == intents.UnknownState {
			if len(story) == 0 || string(story[len(story)-1].What) != in.State {
				out = append(out, fmt.Sprintf("%v (%s) is %s, and its events do not end so", named(in.Intent), in.ID, in.State))
			}
		}
	}
	final := map[string]admin.IntentDetail{}
	for _, in := range a.intents {
		final[in.ID] = in
	}
	for _, s := range a.seen {
		if now := final[s.id]; intents.State(s.state).Terminal() && now.State != s.state {
			out = append(out, fmt.Sprintf("%s was %s at %s, and is %q", s.id, s.state, s.at.Format(time.RFC3339Nano), now.State))
		}
	}
	return out
}

// generationsBack: generations only grow.
func generationsBack(a *account) (out []string) {
	last := map[string]int32{}
	for _, s := range a.seen {
		if s.generation < last[s.id] {
			out = append(out, fmt.Sprintf("%s was seen with generation %d after %d", s.id, s.generation, last[s.id]))
		}
		last[s.id] = s.generation
	}
	stories := a.stories()
	for _, in := range a.intents {
		var steps []int32
		for _, t := range in.Attempts {
			steps = append(steps, t.Generation)
		}
		for i, g := range steps {
			if i > 0 && g <= steps[i-1] || g > in.Generation {
				out = append(out, fmt.Sprintf("%v (%s) has attempts of the generations %v, and generation %d", named(in.Intent), in.ID, steps, in.Generation))
				break
			}
		}
		var told int32
		for _, e := range stories[in.ID] {
			g := generationOf(e)
			if g < told || g > in.Generation {
				out = append(out, fmt.Sprintf("%v: event %s came after generation %d; it is %d", named(in.Intent), e.ID, told, in.Generation))
			}
			told = g
		}
		if in.Generation < last[in.ID] {
			out = append(out, fmt.Sprintf("%s has generation %d, and was seen with %d", in.ID, in.Generation, last[in.ID]))
		}
	}
	return out
}

// generationOf reads an event's id, <intent>-<generation>-<what>.
func generationOf(e wire.Event) int32 {
	text, _, _ := strings.Cut(strings.TrimPrefix(e.ID, e.Intent+"-"), "-")
	g, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return -1
	}
	return int32(g)
}

// leaked: no recipient, content or secret is in a log, on the metrics page, in an event or in a refusal.
func leaked(a *account) (out []string) {
	events, err := json.Marshal(a.events)
	refusals, err2 := json.Marshal(a.refusals)
	if err != nil || err2 != nil {
		return []string{"what was told cannot be searched"}
	}
	for where, text := range map[string]string{"the logs": a.logs, "the metrics": a.metrics, "the events": string(events), "the refusals": string(refusals)} {
		for _, c := range a.canaries {
			if at := strings.Index(text, c); at >= 0 {
				out = append(out, fmt.Sprintf("%s hold %q: …%s…", where, c, text[max(0, at-100):min(len(text), at+len(c)+50)]))
			}
		}
	}
	return out
}

// unexplained: an intent is UNKNOWN because a call ended in doubt, or because something happened to whoever had claimed it.
func unexplained(a *account) (out []string) {
	for _, in := range a.intents {
		if in.State == string(intents.UnknownState) && !a.explained(in) {
			out = append(out, fmt.Sprintf("%v (%s) is unknown (%s: %s), and nothing happened to it", named(in.Intent), in.ID, in.Code, in.Message))
		}
	}
	return out
}

// noted is how long after it began a fault may be noted: a pause is when it is over.
const noted = 10 * time.Second

func (a *account) explained(in admin.IntentDetail) bool {
	if slices.ContainsFunc(a.calls[named(in.Intent)], effect.doubtful) {
		return true
	}
	return slices.ContainsFunc(in.Attempts, func(t admin.Attempt) bool {
		return t.Result == "unknown" && slices.ContainsFunc(a.faults, func(f injected) bool {
			return f.at.After(t.StartedAt.Add(-slack)) && f.at.Before(t.EndedAt.Add(noted))
		})
	})
}
