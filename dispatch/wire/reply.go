package wire

import (
	"encoding/json"
	"time"

	"github.com/onebell/onebell/dedup"
)

// Verdict is the answer to a request.
type Verdict string

// Verdicts.
const (
	Accepted   Verdict = "accepted"   // a new intent is on record; it will be sent
	Duplicate  Verdict = "duplicate"  // the same request was accepted before; nothing new will be sent
	Conflict   Verdict = "conflict"   // the key stands for a request that means something else; nothing will be sent
	Stale      Verdict = "stale"      // the fact is older than the horizon; nothing will be sent
	Superseded Verdict = "superseded" // a higher revision was admitted before; nothing will be sent
	Refused    Verdict = "refused"    // the request is malformed or the channel cannot send it
)

// Admitted reports whether an intent stands for the request: a producer that hears it is done.
func (v Verdict) Admitted() bool { return v == Accepted || v == Duplicate }

// Reply answers a submitted request; the intent is on record when it is sent.
type Reply struct {
	Verdict Verdict  `json:"verdict"`
	Intent  string   `json:"intent"` // of accepted and duplicate, and the one in the way of conflict and superseded; else ""
	State   string   `json:"state"`  // of that intent
	Code    string   `json:"code"`   // one of Codes; "" for accepted and duplicate
	Message string   `json:"message"`
	Fields  []string `json:"fields,omitempty"` // conflict: the members that differ
	Newer   int32    `json:"newer,omitempty"`  // superseded: the revision that stands
}

// Ref names an intent of the caller that asks. It is the payload of status and cancel.
type Ref struct {
	Channel  string    `json:"channel"`
	Key      dedup.Key `json:"key"`
	Revision int32     `json:"revision"`
}

// DecodeRef reads the payload of a status question or a cancellation, strictly. The error is a *Refusal.
func DecodeRef(payload []byte) (Ref, error) {
	var r Ref
	m, err := readObject(payload, []string{"channel", "key", "revision"})
	if err != nil {
		return r, err
	}
	var channel string
	if err := m.text("channel", true, &channel); err != nil {
		return r, err
	}
	if r.Channel, err = dedup.ParseChannel(channel); err != nil {
		return r, fromInput(err)
	}
	if err := m.key(&r.Key); err != nil {
		return r, err
	}
	if err := m.revision(&r.Revision); err != nil {
		return r, err
	}
	return r, nil
}

// Status is what became of an intent. Times that do not apply are absent.
type Status struct {
	Intent             string     `json:"intent"`
	Channel            string     `json:"channel"`
	Key                string     `json:"key"`
	Revision           int32      `json:"revision"`
	State              string     `json:"state"`
	Guarantee          string     `json:"guarantee"`
	Attempts           int        `json:"attempts"`
	PossibleDuplicates int        `json:"possible_duplicates"`
	OccurredAt         time.Time  `json:"occurred_at"`
	CreatedAt          time.Time  `json:"created_at"`
	UpdatedAt          time.Time  `json:"updated_at"`
	NotBefore          *time.Time `json:"not_before,omitempty"`
	ExpiresAt          *time.Time `json:"expires_at,omitempty"`
	NextAttemptAt      *time.Time `json:"next_attempt_at,omitempty"`
	ProviderID         string     `json:"provider_id"`
	Code               string     `json:"code"`
	Message            string     `json:"message"`
	DeadRecipient      bool       `json:"dead_recipient"`
}

// CancelResult is what a cancellation came to.
type CancelResult string

// Results of a cancellation.
const (
	CancelDone     CancelResult = "cancelled" // it will not be sent, also if it was cancelled before
	CancelTooLate  CancelResult = "too-late"  // it was sent, may have been sent, or ended otherwise
	CancelNotFound CancelResult = "not-found" // there is no such intent of this caller
)

// Cancelled answers a cancellation.
type Cancelled struct {
	Result  CancelResult `json:"result"`
	Intent  string       `json:"intent"`
	State   string       `json:"state"` // the state the intent has now; "" if there is none
	Message string       `json:"message"`
}

// errorReply is the form of every reply that is an error.
type errorReply struct {
	Error *Refusal `json:"error"`
}

// Encode writes the reply.
func (r Reply) Encode() []byte { return encode(r) }

// Encode writes the question.
func (r Ref) Encode() []byte { return encode(r) }

// Encode writes the reply.
func (s Status) Encode() []byte { return encode(s) }

// Encode writes the reply.
func (c Cancelled) Encode() []byte { return encode(c) }

// EncodeError writes an error as the reply to any question: {"error":{"code":…,"field":…,"message":…}}.
func EncodeError(r *Refusal) []byte { return encode(errorReply{r}) }

// encode cannot fail for the types above while their times lie in the years 0 to 9999; if one does not, the reader is told so.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(errorReply{refuse(CodeInternal, "", "the answer could not be written; report this to the operators of onebell")})
	}
	return b
}

// DecodeReply reads the answer to a submitted request. An error reply becomes a *Refusal.
func DecodeReply(data []byte) (Reply, error) { return decodeAnswer[Reply](data) }

// DecodeStatus reads the answer to a status question. An error reply becomes a *Refusal; CodeNotFound says that there is no such intent.
func DecodeStatus(data []byte) (Status, error) { return decodeAnswer[Status](data) }

// DecodeCancelled reads the answer to a cancellation. An error reply becomes a *Refusal.
func DecodeCancelled(data []byte) (Cancelled, error) { return decodeAnswer[Cancelled](data) }

func decodeAnswer[T any](data []byte) (T, error) {
	var failed errorReply
	var answer, none T
	if json.Unmarshal(data, &failed) != nil || json.Unmarshal(data, &answer) != nil {
		return none, refuse(CodeInternal, "", "the answer cannot be read; is there another service on this subject?")
	}
	if failed.Error != nil {
		return none, failed.Error
	}
	return answer, nil
}
