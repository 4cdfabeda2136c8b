package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onebell/onebell/intents"
)

// Event is one line of an intent's timeline.
type Event struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind" enum:"admitted,attempt,evidence,change"`
	Generation int32     `json:"generation"`
	Text       string    `json:"text"`
}

// Kinds of events. Where instants are equal they stand in this order: what was learned comes before what it changed.
const (
	kindAdmitted = "admitted"
	kindAttempt  = "attempt"
	kindEvidence = "evidence"
	kindChange   = "change"
)

// Timeline tells an intent's life in words, oldest first. An attempt stands where it ended, since that is when it counted.
func Timeline(r intents.Record) []Event {
	events := []Event{{At: r.Intent.CreatedAt.UTC(), Kind: kindAdmitted, Text: admittedText(r.Intent)}}
	for _, a := range r.Attempts {
		events = append(events, Event{At: a.EndedAt.UTC(), Kind: kindAttempt, Generation: a.Generation, Text: attemptText(a)})
	}
	for _, e := range r.Evidence {
		events = append(events, Event{At: e.At.UTC(), Kind: kindEvidence, Generation: e.Generation, Text: evidenceText(e)})
	}
	for _, c := range r.Changes {
		events = append(events, Event{At: c.At.UTC(), Kind: kindChange, Generation: c.Generation, Text: changeText(c)})
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(position(a), position(b)), a.At.Compare(b.At), cmp.Compare(order(a.Kind), order(b.Kind)))
	})
	return events
}

// position keeps the admission first.
func position(e Event) int {
	if e.Kind == kindAdmitted {
		return 0
	}
	return 1
}

func order(kind string) int {
	return slices.Index([]string{kindAdmitted, kindAttempt, kindEvidence, kindChange}, kind)
}

func admittedText(in intents.Intent) string {
	text := "admitted"
	if in.NotBefore.After(in.CreatedAt) {
		text += ", to be sent not before " + stamp(in.NotBefore)
	}
	if !in.ExpiresAt.IsZero() {
		text += ", worthless after " + stamp(in.ExpiresAt)
	}
	return text
}

func attemptText(a intents.Attempt) string {
	took := a.EndedAt.Sub(a.StartedAt).Round(time.Millisecond)
	text := fmt.Sprintf("attempt %d by %s, %v long: %s", a.Generation, a.Owner, took, resultText(a.Result, a.Phase))
	if a.ProviderID != "" {
		text += ", provider id " + a.ProviderID
	}
	return text + reason(a.Code, a.Message) + "; it is " + string(a.State)
}

// resultText says in words how an attempt ended; the names are those of channels.Result.
func resultText(result, phase string) string {
	switch result {
	case "accepted":
		return "the provider accepted it"
	case "refused":
		return "the provider refused it for good"
	case "not-sent":
		return "nothing was applied"
	case "throttled":
		return "nothing was applied, the provider asked to wait"
	case "misconfigured":
		return "nothing was applied, the channel needs mending"
	}
	switch phase {
	case "":
		return "nobody knows how it ended"
	default:
		return "nobody knows how it ended (it got as far as " + phase + ")"
	}
}

func evidenceText(e intents.Evidence) string {
	text := "evidence (" + e.Source + "): " + resultText(e.Result, "")
	if e.ProviderID != "" {
		text += ", provider id " + e.ProviderID
	}
	text += reason(e.Code, e.Message)
	if e.Settled {
		return text + "; it settled the intent"
	}
	return text + "; kept on record"
}

func changeText(c intents.Change) string {
	text := fmt.Sprintf("%s: %s → %s", strings.ReplaceAll(c.Cause, "-", " "), c.From, c.To)
	if c.From == c.To {
		text = fmt.Sprintf("%s: still %s", strings.ReplaceAll(c.Cause, "-", " "), c.To)
	}
	if c.Actor != "" {
		text += ", by " + c.Actor
	}
	if c.Detail != "" {
		text += " (" + c.Detail + ")"
	}
	return text
}

func reason(code, message string) string {
	switch {
	case code == "" && message == "":
		return ""
	case message == "":
		return " (" + code + ")"
	case code == "":
		return " (" + message + ")"
	}
	return " (" + code + ": " + message + ")"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
