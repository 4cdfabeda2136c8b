package admin

import (
	"context"
	"time"

	"github.com/onebell/onebell/intents"
)

// Stats counts what the database holds.
type Stats struct {
	Now      time.Time        `json:"now" doc:"The database's clock."`
	Since    time.Time        `json:"since"`
	Channels []ChannelStats   `json:"channels" nullable:"false"`
	Refusals map[string]int64 `json:"refusals" doc:"By code."`
	Outbox   int64            `json:"outbox" doc:"Rows of outcome events that are not on the broker yet."`
}

// ChannelStats counts a channel's intents.
type ChannelStats struct {
	Channel            string           `json:"channel"`
	Configured         bool             `json:"configured" doc:"False: this process does not serve it; what is open waits for one that does."`
	ByState            map[string]int64 `json:"by_state" doc:"Intents created since then, and every open one."`
	PossibleDuplicates int64            `json:"possible_duplicates"`
	OldestDue          *time.Time       `json:"oldest_due" doc:"Since when the oldest due intent waits."`
	OldestUnknown      *time.Time       `json:"oldest_unknown" doc:"Since when the oldest unknown intent waits for evidence or a person."`
}

type getStatsInput struct {
	Since string `query:"since" format:"date-time" doc:"Default: a day ago."`
}

type getStatsOutput struct {
	Body Stats
}

// statsSpan is the span that is counted unless since says otherwise.
const statsSpan = 24 * time.Hour

func (s *server) getStats(ctx context.Context, in *getStatsInput) (*getStatsOutput, error) {
	since, _, err := span(in.Since, "")
	if err != nil {
		return nil, err
	}
	if since.IsZero() {
		since = time.Now().Add(-statsSpan)
	}
	caller, visible := principal(ctx).scope("")
	if !visible {
		return nil, absent()
	}
	stats, err := s.Ledger.Stats(ctx, caller, since.Truncate(time.Microsecond))
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	return &getStatsOutput{Body: s.viewStats(stats)}, nil
}

func (s *server) viewStats(st intents.Stats) Stats {
	out := Stats{
		Now: st.Now.UTC(), Since: st.Since.UTC(), Outbox: st.Outbox,
		Channels: []ChannelStats{}, Refusals: map[string]int64{},
	}
	for code, n := range st.Refusals {
		out.Refusals[code] = n
	}
	for _, c := range st.Channels {
		_, known := s.Channels.Lookup(c.Channel)
		v := ChannelStats{
			Channel: c.Channel, Configured: known, ByState: map[string]int64{}, PossibleDuplicates: c.PossibleDuplicates,
			OldestDue: moment(c.OldestDue), OldestUnknown: moment(c.OldestUnknown),
		}
		for _, state := range intents.States() {
			v.ByState[string(state)] = c.ByState[state]
		}
		out.Channels = append(out.Channels, v)
	}
	return out
}
