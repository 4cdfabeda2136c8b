package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

const anHour = time.Hour

// invariants are what must hold of the database at any instant; each query counts offences.
var invariants = map[string]string{
	"somebody will look at every open intent": `
		select count(*) from intents i where state in ('pending', 'sending', 'unknown')
		and not exists (select from agenda a where a.intent_id = i.id and a.generation = i.generation and a.channel = i.channel
			and a.kind = case i.state when 'pending' then 'due' when 'sending' then 'leased' else 'unknown' end
			and (i.state <> 'sending' or a.at <= i.lease_until))
		and not (state = 'sending' and generation = 1 and exists (select from claim_batches b where i.id = any(b.intents)))`,
	"the agenda holds nothing else": `
		select count(*) from agenda a where not exists (select from intents i where i.id = a.intent_id and i.state in ('pending', 'sending', 'unknown'))`,
	"at most one intent for an identity": `
		select count(*) from (select from intents group by caller, channel, key, revision having count(*) > 1) x`,
	"every intent has its key, but one that ended behind the watermark": `
		select count(*) from intents i where (i.state in ('pending', 'sending', 'unknown') or i.occurred_at > (select acked_to from watermark))
		and not exists (select from keys k where k.fact = i.fact and k.revision = i.revision and k.intent_id = i.id)
		and not exists (select from keys_older o where o.fact = i.fact and o.revision = i.revision and o.intent_id = i.id)`,
	"an owner and a lease while sending, and only then": `
		select count(*) from intents where (state = 'sending') <> (owner <> '') or (state = 'sending') <> (lease_until is not null)`,
	"an older revision never waits": `
		select count(*) from intents i join keys k on k.fact = i.fact where i.revision < k.revision and i.state = 'pending'`,
	"no attempt of a generation to come": `
		select count(*) from attempts t join intents i on i.id = t.intent_id where t.generation > i.generation`,
	"what succeeded was accepted": `
		select count(*) from intents i where state = 'succeeded'
		and not exists (select from attempts t where t.intent_id = i.id and t.result = 'accepted')
		and not exists (select from evidence e where e.intent_id = i.id and e.result = 'accepted')`,
	"a terminal state is entered once and not left": `
		select count(*) from intents i join lateral (
			select count(*) as ends, min(state) as state from (
				select t.state from attempts t where t.intent_id = i.id union all select c.to_state from changes c where c.intent_id = i.id) s
			where s.state not in ('pending', 'sending', 'unknown')) e on true
		where e.ends > 1 or e.ends = 1 and e.state <> i.state or e.ends = 0 and i.state not in ('pending', 'sending', 'unknown')`,
}

// holds fails the test for every invariant that does not hold, all read in one moment.
func (w *town) holds() {
	w.t.Helper()
	var all []string
	for name, sql := range invariants {
		all = append(all, "select '"+name+"', ("+sql+")")
	}
	for _, name := range query[string](w, "select name from ("+strings.Join(all, " union all ")+") as i (name, n) where n > 0 order by name") {
		w.t.Errorf("does not hold: %s", name)
	}
}

// comesToRest waits until nothing waits and nothing is on the wire. What is acknowledged is admitted, so the broker is asked first.
func (s *scene) comesToRest() {
	s.t.Helper()
	eventually(s.t, "everything is settled and told", func() bool {
		return s.waiting() == 0 && s.number(`select (select count(*) from intents where state in ('pending', 'sending')) +
			(select count(*) from outbox) + (select count(*) from claim_batches)`) == 0
	})
}

// books returns what the channel's receiver took.
func (w *town) books(channel string) *books {
	return map[string]*books{"mail": &w.mail.books, "keyed": &w.keyed.books, "plain": &w.plain.books, "push": &w.push.books}[channel]
}

// ends waits for the end, and compares it with what must be found there.
func (s *scene) ends(want map[channels.Guarantee]fate) {
	s.t.Helper()
	s.comesToRest()
	for _, channel := range s.channels {
		f := want[guarantees[channel]]
		got := query[string](s.town, `select format('%s, %s possible duplicates', state, possible_duplicates) from intents
			where channel = $1 order by revision desc limit 1`, channel)
		if want := []string{fmt.Sprintf("%s, %d possible duplicates", f.state, f.repeats)}; !slices.Equal(got, want) {
			s.t.Errorf("%s ended as %q; want %q", channel, got, want)
		}
		calls := s.books(channel).all()
		if len(calls) != f.calls {
			s.t.Errorf("%s: the receiver was called %d times, want %d", channel, len(calls), f.calls)
		}
		for _, c := range calls {
			if c != calls[0] {
				s.t.Errorf("%s: a repeat differs: %q, the first was %q", channel, c, calls[0])
			}
		}
		if got := s.attempts(channel); !slices.Equal(got, f.attempts) {
			s.t.Errorf("%s has the attempts %q on record, want %q", channel, got, f.attempts)
		}
		s.wasTold(channel, f.state)
	}
	if s.keyed.applied() > 1 || s.push.applied() > 1 {
		s.t.Errorf("the keyed receiver applied %d effects, and devices show %d notifications", s.keyed.applied(), s.push.applied())
	}
}

// wasTold says that the producer has one event of the newest revision's end, whatever crashed.
func (s *scene) wasTold(channel string, state intents.State) {
	s.t.Helper()
	ids := map[string]bool{}
	for _, e := range s.events() {
		if e.Channel == channel && e.Admitted && e.Revision == s.asked[channel].Revision && string(e.What) == string(state) {
			ids[e.ID] = true
		}
	}
	if len(ids) != 1 {
		s.t.Errorf("%s: %d events tell of its end, want one", channel, len(ids))
	}
}

// events reads what is on the broker.
func (s *scene) events() (events []wire.Event) {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), wire.EventStream)
	if err != nil {
		s.t.Fatal(err)
	}
	for seq := range stream.CachedInfo().State.LastSeq {
		msg, err := stream.GetMsg(s.t.Context(), seq+1)
		if err != nil {
			s.t.Fatal(err)
		}
		var e wire.Event
		if err := json.Unmarshal(msg.Data, &e); err != nil {
			s.t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// repeatsChangeNothing tells everything once more: it is remembered, with the state that it has, or refused.
func (s *scene) repeatsChangeNothing(row deathRow) {
	s.t.Helper()
	for _, channel := range s.channels {
		f, want := row.want[guarantees[channel]], wire.Duplicate
		if row.told != nil {
			want = row.told(f)
		}
		var reply wire.Reply
		if err := again(func() (err error) {
			reply, err = s.producer.Submit(s.t.Context(), channel, s.asked[channel])
			return err
		}); err != nil {
			s.t.Fatal(err)
		}
		if reply.Verdict != want || want == wire.Duplicate && reply.State != string(f.state) {
			s.t.Errorf("%s told again is answered %s (%s), want %s of one that is %s", channel, reply.Verdict, reply.State, want, f.state)
		}
	}
}

// refuseConnections has the receiver hold every connection, and drop it when it is let go.
func (p *hookPeer) refuseConnections() (letGo func()) {
	gone := make(chan struct{})
	p.setHook(func(s stage) bool {
		if s == stageConnected {
			<-gone
		}
		return s != stageConnected
	})
	return func() { p.setHook(nil); close(gone) }
}
