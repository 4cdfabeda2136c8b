package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// Refuse stores refusals, each once by its id, with their events. See dispatch.Store. What a refused request held may be anything;
// it is made storable first.
func (s *Store) Refuse(ctx context.Context, refusals []intents.Refusal) error {
	n := len(refusals)
	if n == 0 {
		return nil
	}
	ids, verdicts, codes, messages, fields := make([]uuid.UUID, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	callers, channels, keys, revisions := make([]string, n), make([]string, n), make([]string, n), make([]int32, n)
	standing, subjects, seqs, samples := make([]*uuid.UUID, n), make([]string, n), make([]int64, n), make([]string, n)
	for i := range refusals {
		r := &refusals[i]
		list, err := fieldText(r.Fields)
		if err != nil {
			return err
		}
		ids[i], verdicts[i], codes[i], messages[i], fields[i] = r.ID, string(r.Verdict), clean(r.Code), clean(r.Message), list
		callers[i], channels[i], keys[i], revisions[i] = clean(r.Caller), clean(r.Channel), clean(r.Key), r.Revision
		subjects[i], seqs[i], samples[i] = clean(r.Subject), int64(r.StreamSeq), clean(r.Sample)
		if r.Intent != uuid.Nil {
			standing[i] = &r.Intent
		}
	}
	return s.exec(ctx, "store refusals", refuseSQL, ids, verdicts, codes, messages, fields, callers, channels, keys, revisions,
		standing, subjects, seqs, samples)
}

// fieldText is a list as one text: SQL cannot unnest lists of different lengths.
func fieldText(fields []string) (string, error) {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = clean(f)
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// OnDuty takes or renews a duty for owner; false while another holds it.
func (s *Store) OnDuty(ctx context.Context, duty, owner string, lease time.Duration) (on bool, err error) {
	err = s.do(ctx, "take a duty", func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, onDutySQL, duty, owner, lease).Scan(&on)
		if errors.Is(err, pgx.ErrNoRows) {
			on, err = false, nil
		}
		return err
	})
	return on && err == nil, err
}

// Events returns the oldest rows of the outbox.
func (s *Store) Events(ctx context.Context, limit int) (out []intents.EventRow, err error) {
	err = s.do(ctx, "read events", func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, eventsSQL, limit)
		out, err = pgx.CollectRows(rows, scanEvents)
		return err
	})
	return out, err
}

// outcomeEvent has the JSON of a wire.Event.
type outcomeEvent struct {
	ID            string    `json:"id"`
	Intent        string    `json:"intent"`
	Caller        string    `json:"caller"`
	Channel       string    `json:"channel"`
	Key           string    `json:"key"`
	Revision      int32     `json:"revision"`
	What          string    `json:"what"`
	Admitted      bool      `json:"admitted"`
	At            time.Time `json:"at"`
	ProviderID    string    `json:"provider_id"`
	Code          string    `json:"code"`
	DeadRecipient bool      `json:"dead_recipient"`
	Message       string    `json:"message,omitempty"`
	StreamSeq     int64     `json:"stream_seq,omitempty"`
}

// scanEvents makes a row of the outbox into events. Their ids follow from what happened, so that an event published twice is the
// same event.
func scanEvents(row pgx.CollectableRow) (r intents.EventRow, err error) {
	var at time.Time
	var subjects []uuid.UUID
	var standing []*uuid.UUID
	var generations, revisions []int32
	var whats, callers, channels, keys, providerIDs, codes, messages []string
	var dead []bool
	var seqs []int64
	err = row.Scan(&r.ID, &at, &subjects, &standing, &generations, &whats, &callers, &channels, &keys, &revisions, &providerIDs, &codes, &dead,
		&messages, &seqs)
	if err != nil {
		return r, err
	}
	r.Events = make([]json.RawMessage, len(subjects))
	for i, subject := range subjects {
		e := outcomeEvent{
			Caller: callers[i], Channel: channels[i], Key: keys[i], Revision: revisions[i], What: whats[i], At: at.UTC(),
			ProviderID: providerIDs[i], Code: codes[i], DeadRecipient: dead[i],
		}
		if standing != nil {
			e.Message, e.StreamSeq = messages[i], seqs[i]
		}
		switch {
		case standing == nil:
			e.ID, e.Intent, e.Admitted = fmt.Sprintf("%s-%d-%s", subject, generations[i], whats[i]), subject.String(), true
		case standing[i] != nil:
			e.ID, e.Intent = "refusal-"+subject.String(), standing[i].String()
		default:
			e.ID = "refusal-" + subject.String()
		}
		if r.Events[i], err = json.Marshal(e); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Forget deletes rows of the outbox that are on the broker.
func (s *Store) Forget(ctx context.Context, rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	return s.exec(ctx, "forget events", forgetEventsSQL, rows)
}
