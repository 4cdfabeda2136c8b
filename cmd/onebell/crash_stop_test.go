package main

import (
	"slices"
	"testing"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// TestStopPastTheLease: dispatchers stand still at a point, one on each channel, until their leases are over and another one has taken over.
// Continued, they begin nothing and overwrite nothing; what they know settles what nobody knew.
//
//	stopped at      meanwhile                                  in the end
//	claim.done      mail, plain UNKNOWN; keyed, push sent      all SUCCEEDED with one call, for the late ones say "not sent"
//	send.before     the same                                   the same: an attempt whose time is over begins no call
//	send.done       mail, plain UNKNOWN; keyed, push repeated  all SUCCEEDED with no other call, for the late ones say "accepted"
//	settle.before   the same                                   the same
func TestStopPastTheLease(t *testing.T) {
	t.Parallel()
	for at, row := range map[fault.Point]struct {
		progress progress
		evidence string
	}{
		fault.ClaimDone:    {unsent, "not-sent"},
		fault.SendBefore:   {unsent, "not-sent"},
		fault.SendDone:     {sent, "accepted"},
		fault.SettleBefore: {sent, "accepted"},
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.admitted()
			stopped := s.stopEach(at)
			if row.progress == sent {
				s.lapse() // what was sent looks at no clock any more
			}
			s.serve()
			s.ends(fates[row.progress])
			generations := s.generations("succeeded")
			for _, d := range stopped {
				d.goOn()
			}
			eventually(t, "everybody who came late said what he knows", func() bool {
				return s.number(`select count(*) from evidence where source = 'late-finisher'`) == len(s.channels)
			})
			s.endsWell(row.progress)
			for _, g := range generations {
				if !slices.Contains(s.generations("succeeded"), g) {
					t.Errorf("somebody who came late changed a settled intent: %s", g)
				}
			}
			if n := s.number(`select count(*) from evidence where generation = 1 and result = $1`, row.evidence); n != len(s.channels) {
				t.Errorf("%d of those who came late said %q, want %d", n, row.evidence, len(s.channels))
			}
			s.holds()
		})
	}
}

// stopEach has a dispatcher for each channel stand still at the point, with claims that are over soon by the clock.
func (s *scene) stopEach(at fault.Point) (stopped []*planned) {
	s.t.Helper()
	patient := s.timeout
	s.timeout = pausedTimeout
	defer func() { s.timeout = patient }()
	for _, channel := range s.channels {
		d := s.planned(stopAtFirst(at), append(s.env(channel), "ONEBELL_ROLES=dispatch"))
		d.stops(at)
		stopped = append(stopped, d)
	}
	return stopped
}

// generations returns the channels that came to the state, each with its generation.
func (s *scene) generations(state string) []string {
	s.t.Helper()
	return query[string](s.town, `select format('%s %s', channel, generation) from intents where state = $1`, state)
}

// endsWell: every effect was made once, as far as anybody can see. Calls are those of the claims that were trusted; nobody else so much as
// connected.
func (s *scene) endsWell(p progress) {
	s.t.Helper()
	s.comesToRest()
	for _, channel := range s.channels {
		f := fates[p][guarantees[channel]]
		calls := max(f.calls, 1)
		if got := len(s.books(channel).all()); got != calls {
			s.t.Errorf("%s: the receiver was called %d times, want %d", channel, got, calls)
		}
		if got := s.books(channel).connected(); channel != "push" && got != calls { // push fetches access tokens besides
			s.t.Errorf("%s: the receiver saw %d connections for %d calls", channel, got, calls)
		}
		if guarantees[channel] != channels.DuplicateVisible && s.books(channel).applied() != 1 {
			s.t.Errorf("%s: %d effects", channel, s.books(channel).applied())
		}
		s.wasTold(channel, intents.Succeeded)
	}
	if got := s.generations("succeeded"); len(got) != len(s.channels) {
		s.t.Errorf("succeeded: %q, want every channel's", got)
	}
	for _, channel := range s.channels {
		if n := s.number(`select count(*) from attempts t join intents i on i.id = t.intent_id where i.channel = $1 and t.result = 'accepted'`, channel); n > len(s.books(channel).all()) {
			s.t.Errorf("%s: %d attempts were accepted, and its receiver was called less often", channel, n)
		}
	}
}
