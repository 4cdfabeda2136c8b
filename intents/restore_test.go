package intents

import (
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

func TestD7WhatARestoredBackupHasAsOpen(t *testing.T) {
	backup, until := origin, origin.Add(6*time.Hour)
	hour := func(n int) time.Time { return origin.Add(time.Duration(n) * time.Hour) }
	for name, c := range map[string]struct {
		relic Relic
		to    State // "": stays
		used  time.Time
	}{
		"visible, pending":             {Relic{State: Pending, Guarantee: channels.DuplicateVisible, DueAt: hour(-1), UpdatedAt: hour(-2)}, UnknownState, hour(-1)},
		"visible, sending":             {Relic{State: Sending, Guarantee: channels.DuplicateVisible, UpdatedAt: backup, ClaimedAt: backup, FirstUsedAt: backup}, UnknownState, backup},
		"visible, due at the end":      {Relic{State: Pending, Guarantee: channels.DuplicateVisible, DueAt: until, UpdatedAt: hour(-2)}, UnknownState, until},
		"visible, due after the gap":   {Relic{State: Pending, Guarantee: channels.DuplicateVisible, DueAt: until.Add(1), UpdatedAt: hour(-2)}, "", time.Time{}},
		"replaceable, pending":         {Relic{State: Pending, Guarantee: channels.Replaceable, DueAt: hour(1), UpdatedAt: hour(-2)}, UnknownState, hour(1)},
		"an unknown guarantee":         {Relic{State: Pending, Guarantee: "promised", DueAt: hour(1), UpdatedAt: backup}, UnknownState, hour(1)},
		"keyed, pending":               {Relic{State: Pending, Guarantee: channels.Keyed, DueAt: hour(-1), UpdatedAt: hour(-1), FirstUsedAt: hour(-5)}, Pending, hour(-1)},
		"keyed, pending, put off":      {Relic{State: Pending, Guarantee: channels.Keyed, DueAt: hour(-1), UpdatedAt: hour(-1), FirstUsedAt: hour(-2), ReachedAt: hour(-3)}, Pending, hour(-3)},
		"keyed, pending in doubt":      {Relic{State: Pending, Guarantee: channels.Keyed, Doubt: true, DueAt: hour(-1), UpdatedAt: hour(-1), FirstUsedAt: hour(-5)}, Pending, hour(-5)},
		"keyed, sending":               {Relic{State: Sending, Guarantee: channels.Keyed, UpdatedAt: backup, FirstUsedAt: hour(-1)}, Pending, hour(-1)},
		"keyed, sending and replaced":  {Relic{State: Sending, Guarantee: channels.Keyed, Superseded: true, UpdatedAt: backup, FirstUsedAt: hour(-1)}, UnknownState, hour(-1)},
		"keyed, marked before":         {Relic{State: Pending, Guarantee: channels.Keyed, Doubt: true, Marked: true, DueAt: backup, UpdatedAt: backup}, "", time.Time{}},
		"accepted, as evidence has it": {Relic{State: Sending, Guarantee: channels.DuplicateVisible, Accepted: true, UpdatedAt: backup, FirstUsedAt: backup}, Succeeded, backup},
		"settled":                      {Relic{State: Succeeded}, "", time.Time{}},
		"unknown":                      {Relic{State: UnknownState, Doubt: true}, "", time.Time{}},
		"a newer version's state":      {Relic{State: "held", Guarantee: channels.DuplicateVisible}, "", time.Time{}},
	} {
		to, used, ok := AfterRestore(c.relic, until)
		if to != c.to || ok != (c.to != "") || !used.Equal(c.used) {
			t.Errorf("%s: %q, first use %v, %v; want %q, %v", name, to, used, ok, c.to, c.used)
		}
		if ok && !Leads(c.relic.State, to) {
			t.Errorf("%s: there is no way from %s to %s", name, c.relic.State, to)
		}
	}
}

// A keyed intent out of a backup goes out again only inside its window, counted from the first use that the gap can have seen.
func TestD7KeyWindowOfARestoredIntent(t *testing.T) {
	r := Relic{State: Pending, Guarantee: channels.Keyed, DueAt: origin, UpdatedAt: origin}
	_, used, _ := AfterRestore(r, origin.Add(48*time.Hour))
	p, c := plain(channels.Keyed), plainClaim() // a window of a day
	c.Guarantee, c.Doubt, c.FirstUsedAt = channels.Keyed, true, used
	for age, want := range map[time.Duration]bool{time.Hour: true, 24 * time.Hour: false, 48 * time.Hour: false} {
		now := origin.Add(age)
		c.Trust = NewTrust(now, LeaseFor(p.Contract.AttemptTimeout), p.Contract.AttemptTimeout)
		if instead, ok := BeforeSend(p, c, now, now); ok != want || !ok && instead.To() != UnknownState {
			t.Errorf("%v after its first possible use: %v, %s", age, ok, instead.To())
		}
	}
}
