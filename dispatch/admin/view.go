package admin

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
)

// Intent is an intent as the API shows it. Times are UTC; those that do not apply are null.
type Intent struct {
	ID                 string     `json:"id" format:"uuid"`
	Caller             string     `json:"caller"`
	Channel            string     `json:"channel"`
	Key                string     `json:"key"`
	Revision           int32      `json:"revision"`
	State              string     `json:"state" enum:"pending,sending,succeeded,rejected,unknown,expired,superseded,cancelled,exhausted,abandoned"`
	Guarantee          string     `json:"guarantee" enum:"keyed,replaceable,duplicate-visible"`
	Generation         int32      `json:"generation" doc:"Number of claims so far; a decision names the one that was seen."`
	Recipient          string     `json:"recipient" doc:"Masked below the role operator; empty once it was forgotten."`
	OccurredAt         time.Time  `json:"occurred_at"`
	CreatedAt          time.Time  `json:"created_at"`
	UpdatedAt          time.Time  `json:"updated_at"`
	NotBefore          *time.Time `json:"not_before"`
	ExpiresAt          *time.Time `json:"expires_at"`
	NextAttemptAt      *time.Time `json:"next_attempt_at"`
	ProviderID         string     `json:"provider_id"`
	Code               string     `json:"code"`
	Message            string     `json:"message"`
	PossibleDuplicates int        `json:"possible_duplicates" doc:"Automatic resends after an attempt of which nobody knows how it ended."`
}

// IntentDetail is one intent with everything that is known of it.
type IntentDetail struct {
	Intent
	EffectKey     string            `json:"effect_key" doc:"What the provider was given: Message-ID, Idempotency-Key …"`
	CollapseID    string            `json:"collapse_id"`
	Priority      string            `json:"priority" enum:"high,normal,low"`
	Labels        map[string]string `json:"labels"`
	Doubt         bool              `json:"doubt" doc:"An attempt may have been applied, and nothing has shown yet whether it was."`
	DeadRecipient bool              `json:"dead_recipient"`
	SupersededBy  *string           `json:"superseded_by" format:"uuid"`
	Takeovers     int               `json:"takeovers" doc:"Leases that ran out."`
	Owner         string            `json:"owner" doc:"The dispatcher that holds the claim."`
	LeaseUntil    *time.Time        `json:"lease_until"`
	FirstUsedAt   *time.Time        `json:"first_used_at" doc:"Since when the provider may know the effect key."`
	Attempts      []Attempt         `json:"attempts" nullable:"false"`
	Evidence      []Evidence        `json:"evidence" nullable:"false"`
	Timeline      []Event           `json:"timeline" nullable:"false"`
	Explain       Explanation       `json:"explain"`
}

// Attempt is one attempt on the wire.
type Attempt struct {
	Generation int32     `json:"generation"`
	Owner      string    `json:"owner"`
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	Result     string    `json:"result"`
	Phase      string    `json:"phase" doc:"How far it got: connect, request, committed, reply."`
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	ProviderID string    `json:"provider_id"`
	State      string    `json:"state" doc:"The state that it led to."`
}

// Evidence is what somebody learned about the effect.
type Evidence struct {
	At         time.Time `json:"at"`
	Source     string    `json:"source"`
	Generation int32     `json:"generation" doc:"Of the claim that it speaks of; 0 if unknown."`
	Result     string    `json:"result"`
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	ProviderID string    `json:"provider_id"`
	Settled    bool      `json:"settled" doc:"This evidence settled the intent."`
}

// Refusal is a request that was not admitted.
type Refusal struct {
	ID        string    `json:"id" format:"uuid"`
	At        time.Time `json:"at"`
	Verdict   string    `json:"verdict"`
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	Fields    []string  `json:"fields" nullable:"false" doc:"Members that differ from the admitted request; never their values."`
	Caller    string    `json:"caller"`
	Channel   string    `json:"channel"`
	Key       string    `json:"key"`
	Revision  int32     `json:"revision"`
	Intent    *string   `json:"intent" format:"uuid" doc:"The intent that stands in the way."`
	Subject   string    `json:"subject"`
	StreamSeq uint64    `json:"stream_seq" doc:"0 for requests that did not come by the stream."`
	Sample    string    `json:"sample" doc:"Of what could not be read: its shape, every value struck out."`
}

func viewIntent(in intents.Intent) Intent {
	return Intent{
		ID: in.ID.String(), Caller: in.Identity.Caller, Channel: in.Identity.Channel,
		Key: string(in.Identity.Key), Revision: in.Identity.Revision,
		State: string(in.State), Guarantee: string(in.Guarantee), Generation: in.Generation, Recipient: in.Recipient,
		OccurredAt: in.OccurredAt.UTC(), CreatedAt: in.CreatedAt.UTC(), UpdatedAt: in.UpdatedAt.UTC(),
		NotBefore: moment(in.NotBefore), ExpiresAt: moment(in.ExpiresAt), NextAttemptAt: moment(in.NextAttemptAt),
		ProviderID: in.ProviderID, Code: in.Code, Message: in.Message, PossibleDuplicates: in.PossibleDuplicates,
	}
}

func viewDetail(r intents.Record, explain Explanation) IntentDetail {
	in := r.Intent
	labels := in.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return IntentDetail{
		Intent: viewIntent(in), EffectKey: in.EffectKey, CollapseID: in.CollapseID, Priority: in.Priority.String(), Labels: labels,
		Doubt: in.Doubt, DeadRecipient: in.DeadRecipient, SupersededBy: identifier(in.SupersededBy), Takeovers: in.Takeovers,
		Owner: in.Owner, LeaseUntil: moment(in.LeaseUntil), FirstUsedAt: moment(in.FirstUsedAt),
		Attempts: viewAttempts(r.Attempts), Evidence: viewEvidence(r.Evidence), Timeline: Timeline(r), Explain: explain,
	}
}

func viewAttempts(list []intents.Attempt) []Attempt {
	out := make([]Attempt, 0, len(list))
	for _, a := range list {
		out = append(out, Attempt{
			Generation: a.Generation, Owner: a.Owner, StartedAt: a.StartedAt.UTC(), EndedAt: a.EndedAt.UTC(),
			Result: a.Result, Phase: a.Phase, Code: a.Code, Message: a.Message, ProviderID: a.ProviderID, State: string(a.State),
		})
	}
	return out
}

func viewEvidence(list []intents.Evidence) []Evidence {
	out := make([]Evidence, 0, len(list))
	for _, e := range list {
		out = append(out, Evidence{
			At: e.At.UTC(), Source: e.Source, Generation: e.Generation, Result: e.Result, Code: e.Code,
			Message: e.Message, ProviderID: e.ProviderID, Settled: e.Settled,
		})
	}
	return out
}

func viewRefusal(r intents.Refusal) Refusal {
	fields := r.Fields
	if fields == nil {
		fields = []string{}
	}
	return Refusal{
		ID: r.ID.String(), At: r.At.UTC(), Verdict: string(r.Verdict), Code: r.Code, Message: r.Message, Fields: fields,
		Caller: r.Caller, Channel: r.Channel, Key: r.Key, Revision: r.Revision, Intent: identifier(r.Intent),
		Subject: r.Subject, StreamSeq: r.StreamSeq, Sample: r.Sample,
	}
}

// moment is null for a time that does not apply.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func identifier(id uuid.UUID) *string {
	if id == uuid.Nil {
		return nil
	}
	s := id.String()
	return &s
}
