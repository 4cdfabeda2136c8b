package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// progress is how far an effect had come when its dispatcher died.
type progress string

const (
	unclaimed progress = "unclaimed" // nobody held a claim
	unsent    progress = "unsent"    // claimed, and nothing had left
	sent      progress = "sent"      // the effect was made, and nothing was settled
	settled   progress = "settled"   // the settlement was committed
)

// fate is what must be found in the end.
type fate struct {
	state    intents.State
	calls    int      // whole requests at the receiver
	attempts []string // on record, "generation result"
	repeats  int      // possible duplicates that are counted
}

// fates is the contract's row "lease over, no settlement", told from outside: a claim that nobody settled means that nobody knows. Where a
// repeat would be seen it waits for a person; elsewhere it is made, and the receiver has one effect all the same. The
// takeover takes a generation.
var fates = map[progress]map[channels.Guarantee]fate{
	unclaimed: everywhere(fate{intents.Succeeded, 1, []string{"1 accepted"}, 0}),
	unsent: {
		channels.DuplicateVisible: {intents.UnknownState, 0, []string{"1 unknown"}, 0},
		channels.Keyed:            {intents.Succeeded, 1, []string{"1 unknown", "3 accepted"}, 1},
		channels.Replaceable:      {intents.Succeeded, 1, []string{"1 unknown", "3 accepted"}, 1},
	},
	sent: {
		channels.DuplicateVisible: {intents.UnknownState, 1, []string{"1 unknown"}, 0},
		channels.Keyed:            {intents.Succeeded, 2, []string{"1 unknown", "3 accepted"}, 1},
		channels.Replaceable:      {intents.Succeeded, 2, []string{"1 unknown", "3 accepted"}, 1},
	},
	settled: everywhere(fate{intents.Succeeded, 1, []string{"1 accepted"}, 0}),
}

func everywhere(f fate) map[channels.Guarantee]fate {
	return map[channels.Guarantee]fate{channels.DuplicateVisible: f, channels.Keyed: f, channels.Replaceable: f}
}

// guarantees of a town's channels.
var guarantees = map[string]channels.Guarantee{
	"mail": channels.DuplicateVisible, "plain": channels.DuplicateVisible, "keyed": channels.Keyed, "push": channels.Replaceable,
}

// deathRow is a row of the SIGKILL matrix: how it comes to the death, and what must be found after another dispatcher has taken over.
type deathRow struct {
	die  func(*scene, fault.Point)
	want map[channels.Guarantee]fate
	then func(*scene)            // what else must hold
	told func(fate) wire.Verdict // the answer to a repeat after all that; nil: duplicate
}

// matrix has every point. Each row is played for every guarantee; where the point is passed by one intent, with a death for each.
var matrix = map[fault.Point]deathRow{
	fault.IntakeFetched: {die: arriving, want: fates[unclaimed]},
	fault.IntakeRead:    {die: arriving, want: fates[unclaimed]},
	fault.AdmitBefore:   {die: arriving, want: fates[unclaimed]},
	fault.AdmitDone:     {die: arriving, want: keyedClaimed},
	fault.AnswerBefore:  {die: arriving, want: keyedClaimed},
	fault.AnswerDone:    {die: arriving, want: keyedClaimed},
	fault.ReviseOpen:    {die: revising, want: fates[unclaimed], then: theOlderIsSuperseded},
	fault.RefuseDone:    {die: contradicting, want: fates[settled], then: refusedOnce},
	fault.ClaimBefore:   {die: due, want: fates[unclaimed]},
	fault.ClaimDone:     {die: due, want: fates[unsent]},
	fault.SendBefore:    {die: sending, want: fates[unsent]},
	fault.SendDone:      {die: sending, want: fates[sent]},
	fault.SettleBefore:  {die: sending, want: fates[sent]},
	fault.SettleDone:    {die: sending, want: fates[settled]},
	fault.RelayDone:     {die: relaying, want: fates[settled]},
	fault.TakeOverDone:  {die: takingOver, want: takenOverTwice},
	fault.WitnessBefore: {die: comingLate, want: fates[sent], then: nobodyTestified},
	fault.SweepDone:     {die: expiring, want: everywhere(fate{intents.Expired, 0, nil, 0})},
	fault.PurgeMoved:    {die: purgingKeys, want: lossy},
	fault.PurgeKeys:     {die: purgingKeys, want: lossy, told: rememberedOrRefused},
	fault.PurgeRows:     {die: purgingContents, want: lossy},
}

// keyedClaimed: what is keyed is claimed with its admission, everything else waits.
var keyedClaimed = map[channels.Guarantee]fate{
	channels.DuplicateVisible: fates[unclaimed][channels.DuplicateVisible],
	channels.Keyed:            fates[unsent][channels.Keyed],
	channels.Replaceable:      fates[unclaimed][channels.Replaceable],
}

var takenOverTwice = map[channels.Guarantee]fate{
	channels.DuplicateVisible: {intents.UnknownState, 0, []string{"1 unknown", "2 unknown"}, 0},
	channels.Keyed:            {intents.Succeeded, 1, []string{"1 unknown", "2 unknown", "4 accepted"}, 1},
	channels.Replaceable:      {intents.Succeeded, 1, []string{"1 unknown", "2 unknown", "4 accepted"}, 1},
}

// TestKillAtEveryFaultPoint is the SIGKILL matrix: every named point of the code, on every guarantee.
func TestKillAtEveryFaultPoint(t *testing.T) {
	t.Parallel()
	for _, at := range slices.Sorted(maps.Keys(matrix)) {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			row, s := matrix[at], newScene(t)
			row.die(s, at)
			s.bury()
			s.serve()
			eventually(t, "what was not acknowledged is delivered again, and answered", func() bool { return s.waiting() == 0 })
			s.resume()
			s.ends(row.want)
			if row.then != nil {
				row.then(s)
			}
			s.repeatsChangeNothing(row)
			s.holds()
		})
	}
}

func TestEveryFaultPointIsInTheMatrix(t *testing.T) {
	for _, at := range fault.All() {
		if _, ok := matrix[at]; !ok {
			t.Errorf("nobody is killed at %s; give the matrix a row for it", at)
		}
	}
	if len(matrix) != len(fault.All()) {
		t.Errorf("the matrix has %d rows for %d points", len(matrix), len(fault.All()))
	}
}

// arriving: a dispatcher dies while a request arrives. What need not be claimed to come to the point is kept from being claimed.
func arriving(s *scene, at fault.Point) {
	s.pause(s.byAgenda()...)
	letGo := s.keyed.refuseConnections()
	s.dieEach(at, func(channel string) *planned {
		s.ask(channel)
		return s.planned(killAtFirst(at), s.env())
	})
	letGo()
}

// due: a dispatcher dies on its way from the agenda to a sender.
func due(s *scene, at fault.Point) {
	s.admitted()
	s.dieEach(at, func(channel string) *planned {
		return s.planned(killAtFirst(at), append(s.env(channel), "ONEBELL_ROLES=dispatch"))
	})
}

// sending: a dispatcher that took a request in dies over its effect.
func sending(s *scene, at fault.Point) {
	s.dieEach(at, func(channel string) *planned {
		s.ask(channel)
		return s.planned(killAtFirst(at), s.env())
	})
}

// relaying: what became of everything is being told.
func relaying(s *scene, at fault.Point) {
	s.exec(`insert into duties values ('relay', 'nobody', 'infinity')`)
	for _, channel := range s.channels {
		s.ask(channel)
	}
	d := s.serve()
	eventually(s.t, "everything is sent", func() bool {
		return s.number(`select count(*) from intents where state = 'succeeded'`) == len(s.channels)
	})
	d.kill()
	s.exec(`delete from duties`)
	s.planned(killAtFirst(at), s.env()).dies(at)
	if n := s.number(`select count(*) from intents i where exists (select from outbox o where i.id = any(o.subjects))`); n != len(s.channels) {
		s.t.Errorf("%d events are on the broker and in the outbox, want %d", n, len(s.channels))
	}
}

// revising: a newer revision of what waits is being admitted.
func revising(s *scene, at fault.Point) {
	s.pause(s.channels...)
	s.admitted()
	s.dieEach(at, func(channel string) *planned {
		s.ask(channel, func(r *client.Request) { r.Revision = 1 })
		return s.planned(killAtFirst(at), s.env())
	})
	if n := s.number(`select count(*) from intents where revision = 1 or state <> 'pending' or superseded_by is not null`); n != 0 {
		s.t.Errorf("%d intents show a revision whose admission was not committed", n)
	}
}

func theOlderIsSuperseded(s *scene) {
	if n := s.number(`select count(*) from intents o join intents n on n.id = o.superseded_by and n.fact = o.fact and n.revision = 1
		where o.revision = 0 and o.state = 'superseded'`); n != len(s.channels) {
		s.t.Errorf("%d older revisions are superseded, want %d", n, len(s.channels))
	}
}

// contradicting: a key that stands for one thing is told with another. That is refused, and never sent.
func contradicting(s *scene, at fault.Point) {
	s.dieEach(at, func(channel string) *planned {
		s.ask(channel)
		d := s.planned(killAtFirst(at), s.env())
		eventually(s.t, channel+" is sent", func() bool {
			return s.number(`select count(*) from intents where channel = $1 and state = 'succeeded'`, channel) == 1
		})
		first := s.asked[channel]
		s.ask(channel, func(r *client.Request) { r.Content = s.request(channel, "9999").Content })
		s.asked[channel] = first
		return d
	})
}

func refusedOnce(s *scene) {
	for _, channel := range s.channels {
		if n := s.number(`select count(*) from refusals where verdict = 'conflict' and channel = $1`, channel); n != 1 {
			s.t.Errorf("%d refusals are on record on %s, want 1 of a request that was delivered twice", n, channel)
		}
	}
}

// takingOver: a dispatcher took over what a dead one left, and dies before it decides about it.
func takingOver(s *scene, at fault.Point) {
	sending(s, fault.SendBefore)
	s.lapse()
	s.planned(killAtFirst(at), s.env()).dies(at)
}

// comingLate: dispatchers stand still over their effects until others have taken over, and die when they are about to say what they know.
func comingLate(s *scene, at fault.Point) {
	s.admitted()
	late := map[string]*planned{}
	for _, channel := range s.channels {
		plan := fmt.Sprintf("%s,%s", stopAtFirst(fault.SendDone), killAtFirst(at))
		late[channel] = s.planned(plan, append(s.env(channel), "ONEBELL_ROLES=dispatch"))
		late[channel].stops(fault.SendDone)
	}
	s.lapse()
	other := s.serve()
	s.comesToRest()
	for _, d := range late {
		d.goOn()
		d.dies(at)
	}
	other.kill()
}

func nobodyTestified(s *scene) {
	if n := s.number(`select count(*) from evidence`); n != 0 {
		s.t.Errorf("%d pieces of evidence of dispatchers that died before they gave any", n)
	}
}

// expiring: what waited for too long is ended.
func expiring(s *scene, at fault.Point) {
	s.pause(s.channels...)
	s.admitted(func(r *client.Request) { r.ExpiresAt = r.OccurredAt.Add(anHour) })
	s.exec(`with past as (select now() - interval '1 s' as at), i as (update intents set expires_at = past.at from past)
		update agenda set expires_at = past.at from past`)
	s.planned(killAtFirst(at), s.env()).dies(at)
	if n := s.number(`select count(*) from intents where state = 'expired'`); n != len(s.channels) {
		s.t.Errorf("%d intents had expired when the sweep was committed, want %d", n, len(s.channels))
	}
}
