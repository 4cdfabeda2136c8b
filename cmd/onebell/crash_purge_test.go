package main

import (
	"strings"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// lossy is what must be found where the reply of every effect that would be seen twice was lost.
var lossy = map[channels.Guarantee]fate{
	channels.DuplicateVisible: fates[sent][channels.DuplicateVisible],
	channels.Keyed:            fates[settled][channels.Keyed],
	channels.Replaceable:      fates[settled][channels.Replaceable],
}

// lossyPast brings about facts of two hours ago that have come to their end, or to UNKNOWN.
func (s *scene) lossyPast() {
	s.t.Helper()
	for _, channel := range s.channels {
		if guarantees[channel] == channels.DuplicateVisible {
			s.books(channel).setHook(func(at stage) bool { return at != stageTaken })
		}
		s.ask(channel, func(r *client.Request) { r.OccurredAt = r.OccurredAt.Add(-2 * time.Hour) })
	}
	d := s.serve()
	s.comesToRest()
	d.kill()
	s.exec(`update duties set lease_until = now()`)
}

// forgetsKeys is the configuration of a dispatcher that keeps keys for little more than an hour.
func (s *scene) forgetsKeys() []string {
	env := append(s.env(), "ONEBELL_HORIZON=1m")
	for _, channel := range s.channels {
		env = append(env, "ONEBELL_CHANNEL_"+strings.ToUpper(channel)+"_MAX_AGE=1m")
	}
	return env
}

// purgingKeys: keys are being forgotten. The dispatcher that comes after has a longer horizon, and would take their facts in.
func purgingKeys(s *scene, at fault.Point) {
	s.lossyPast()
	s.planned(killAtFirst(at), s.forgetsKeys()).dies(at)
	if n := s.number(`select count(*) from watermark where acked_to > now() - interval '2 h'`); n != 1 {
		s.t.Error("the watermark was not moved")
	}
	kept := len(s.channels)
	if at == fault.PurgeKeys {
		kept = s.number(`select count(*) from intents where state = 'unknown'`)
	}
	if n := s.number(`select count(*) from keys`); n != kept {
		s.t.Errorf("%d keys are there, want %d", n, kept)
	}
}

// purgingContents: what was sent is being forgotten, and who it was sent to.
func purgingContents(s *scene, at fault.Point) {
	s.lossyPast()
	s.planned(killAtFirst(at), append(s.env(), "ONEBELL_KEEP_CONTENT=100ms")).dies(at)
	if n := s.number(`select count(*) from contents c join intents i on i.id = c.intent_id and i.state = 'unknown'`); n != s.number(`select count(*) from contents`) ||
		n != s.number(`select count(*) from intents where state = 'unknown'`) {
		s.t.Errorf("%d contents of UNKNOWN intents are there; want those, and no other", n)
	}
}

// rememberedOrRefused is the answer to a repeat after keys were forgotten: an intent that is open keeps its key, the others are behind the
// watermark.
func rememberedOrRefused(f fate) wire.Verdict {
	if f.state == intents.UnknownState {
		return wire.Duplicate
	}
	return wire.Stale
}
