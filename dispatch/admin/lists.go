package admin

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// revision is a query parameter whose zero means something.
type revision struct {
	Value int32
	given bool
}

// Schema, Receiver and OnParamSet make it a parameter of huma's.
func (revision) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[int32](), false, "")
}

// Receiver is where huma stores the parsed value.
func (o *revision) Receiver() reflect.Value { return reflect.ValueOf(&o.Value).Elem() }

// OnParamSet notes whether there was one.
func (o *revision) OnParamSet(given bool, _ any) { o.given = given }

type listIntentsInput struct {
	Caller     string   `query:"caller" pattern:"^[a-z0-9_-]{1,64}$"`
	Channel    string   `query:"channel" pattern:"^[a-z0-9_-]{1,32}$"`
	Key        string   `query:"key" maxLength:"200" doc:"The fact's key; with caller and channel it is the quickest question."`
	Revision   revision `query:"revision" minimum:"0" maximum:"2147483647"`
	State      string   `query:"state" enum:"pending,sending,succeeded,rejected,unknown,expired,superseded,cancelled,exhausted,abandoned"`
	Recipient  string   `query:"recipient" maxLength:"4096"`
	ProviderID string   `query:"provider_id" maxLength:"512"`
	Since      string   `query:"since" format:"date-time" doc:"Created at or after."`
	Until      string   `query:"until" format:"date-time" doc:"Created before."`
	Cursor     string   `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
	Limit      int      `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type listIntentsOutput struct {
	Body IntentPage
}

// IntentPage is a page of intents, newest first.
type IntentPage struct {
	Intents    []Intent `json:"intents" nullable:"false"`
	NextCursor string   `json:"next_cursor" doc:"Empty on the last page. A page may be short, or empty, and still not be the last."`
}

func (s *server) listIntents(ctx context.Context, in *listIntentsInput) (*listIntentsOutput, error) {
	f, err := s.intentFilter(in)
	if err != nil {
		return nil, err
	}
	out := &listIntentsOutput{Body: IntentPage{Intents: []Intent{}}}
	who := principal(ctx)
	var visible bool
	if f.Caller, visible = who.scope(f.Caller); !visible {
		return out, nil // what may not be seen is absent, not forbidden
	}
	page, err := s.Ledger.ListIntents(ctx, f)
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	for _, i := range page.Intents {
		out.Body.Intents = append(out.Body.Intents, viewIntent(who.shown(intents.Record{Intent: i}).Intent))
	}
	if page.Next != uuid.Nil {
		out.Body.NextCursor = page.Next.String()
	}
	return out, nil
}

func (s *server) intentFilter(in *listIntentsInput) (intents.Filter, error) {
	f := intents.Filter{
		Caller: in.Caller, Channel: in.Channel, Key: in.Key, State: intents.State(in.State),
		ProviderID: in.ProviderID, Limit: in.Limit,
	}
	if in.Key != "" {
		if _, err := dedup.ParseKey(in.Key); err != nil {
			return f, wrong("query.key", "it is not a key, so no intent can have it", "Keys look like receipt-mail:8841, the text before and after ':' of letters, digits and ._~=-.")
		}
	}
	if in.Revision.given {
		f.Revision = &in.Revision.Value
	}
	if in.Recipient != "" {
		f.RecipientHashes = s.RecipientHashes(in.Recipient)
	}
	if in.Cursor != "" {
		id, err := uuid.Parse(in.Cursor)
		if err != nil {
			return f, badCursor()
		}
		f.Before = id
	}
	var err error
	f.Since, f.Until, err = span(in.Since, in.Until)
	return f, err
}

func badCursor() *Problem {
	return wrong("query.cursor", "it is not a cursor of this list", "Pass next_cursor of the page before as it is, or leave it out to begin anew.")
}

// span parses a time span; huma has checked the format.
func span(since, until string) (from, to time.Time, err error) {
	if since != "" {
		if from, err = time.Parse(time.RFC3339Nano, since); err != nil {
			return from, to, wrong("query.since", "it is not a time with offset", "As in 2026-11-30T10:00:00Z.")
		}
	}
	if until != "" {
		if to, err = time.Parse(time.RFC3339Nano, until); err != nil {
			return from, to, wrong("query.until", "it is not a time with offset", "As in 2026-11-30T10:00:00Z.")
		}
	}
	if since != "" && until != "" && !from.Before(to) {
		return from, to, wrong("query.until", "it does not lie after since", "The span is since ≤ created < until.")
	}
	return from, to, nil
}

type getIntentInput struct {
	ID string `path:"id" format:"uuid"`
}

type getIntentOutput struct {
	Body IntentDetail
}

func (s *server) getIntent(ctx context.Context, in *getIntentInput) (*getIntentOutput, error) {
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return nil, absent()
	}
	record, found, err := s.Ledger.GetRecord(ctx, id)
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	who := principal(ctx)
	if !found || !who.Sees(record.Intent.Identity.Caller) {
		return nil, absent()
	}
	var contract channels.Contract
	if e, ok := s.Channels.Lookup(record.Intent.Identity.Channel); ok {
		contract = e.Channel.Contract()
	}
	record = who.shown(record)
	return &getIntentOutput{Body: viewDetail(record, Explain(record, contract))}, nil
}

type listRefusalsInput struct {
	Caller  string `query:"caller" maxLength:"64"`
	Channel string `query:"channel" maxLength:"64"`
	Key     string `query:"key" maxLength:"200"`
	Verdict string `query:"verdict" enum:"conflict,stale,superseded,refused"`
	Code    string `query:"code" maxLength:"64"`
	Since   string `query:"since" format:"date-time" doc:"Refused at or after."`
	Until   string `query:"until" format:"date-time" doc:"Refused before."`
	Cursor  string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type listRefusalsOutput struct {
	Body RefusalPage
}

// RefusalPage is a page of refusals, newest first.
type RefusalPage struct {
	Refusals   []Refusal `json:"refusals" nullable:"false"`
	NextCursor string    `json:"next_cursor" doc:"Empty on the last page."`
}

func (s *server) listRefusals(ctx context.Context, in *listRefusalsInput) (*listRefusalsOutput, error) {
	f := intents.RefusalFilter{
		Caller: in.Caller, Channel: in.Channel, Key: in.Key, Code: in.Code,
		Verdict: intents.VerdictKind(in.Verdict), Limit: in.Limit,
	}
	var err error
	if f.Since, f.Until, err = span(in.Since, in.Until); err != nil {
		return nil, err
	}
	if in.Cursor != "" {
		if f.BeforeAt, f.Before, err = parseRefusalCursor(in.Cursor); err != nil {
			return nil, err
		}
	}
	out := &listRefusalsOutput{Body: RefusalPage{Refusals: []Refusal{}}}
	who := principal(ctx)
	var visible bool
	if f.Caller, visible = who.scope(f.Caller); !visible {
		return out, nil // what may not be seen is absent, not forbidden
	}
	list, err := s.Ledger.ListRefusals(ctx, f)
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	for _, r := range list {
		out.Body.Refusals = append(out.Body.Refusals, viewRefusal(who.shownRefusal(r)))
	}
	if n := len(list); n > 0 && n == f.Limit {
		out.Body.NextCursor = refusalCursor(list[n-1])
	}
	return out, nil
}

// Refusals have ids without an order, so their cursor is the instant and the id.
func refusalCursor(r intents.Refusal) string { return fmt.Sprintf("%d_%s", r.At.UnixMicro(), r.ID) }

func parseRefusalCursor(s string) (time.Time, uuid.UUID, error) {
	at, id, _ := strings.Cut(s, "_")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return time.Time{}, uuid.Nil, badCursor()
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return time.Time{}, uuid.Nil, badCursor()
	}
	return time.UnixMicro(micros).UTC(), parsed, nil
}
