package webhook

import (
	"encoding/json"
	"net/http"

	"github.com/onebell/onebell/channels"
)

// classify says what an exchange with a receiver proves. Where it says nothing of its own, HTTP's table holds: 2xx is
// accepted whatever the body says, as Standard Webhooks has it; 401 and 403 are that receiver's choice and no reason to
// pause the channel for all others.
func classify(d Dedup, x channels.Exchange) channels.Outcome {
	switch {
	case x.Status == http.StatusGone: // Standard Webhooks: disable the endpoint
		return channels.OutcomeDeadRecipient("410", x.Excerpt)
	case x.Status == http.StatusConflict && d == DedupIdempotencyKey:
		// an earlier request with this key is still in progress (draft-ietf-httpapi-idempotency-key-header): this one was
		// not applied, and asking again later brings the earlier one's reply
		return channels.OutcomeThrottled(channels.ParseRetryAfter(x.Header, x.At), "409", x.Excerpt)
	}
	return channels.ClassifyHTTP(x)
}

// lookedUp says what a reply to a look-up proves: see the package comment. All but the two definite answers is unknown.
func lookedUp(x channels.Exchange) channels.Outcome {
	const code = "look-up"
	if x.Status == 0 {
		return channels.OutcomeUnknown(channels.PhaseNone, code, "the look-up brought no reply: "+x.Code)
	}
	var answer struct {
		Status string `json:"status"`
		ID     string `json:"id"`
	}
	if x.Status != http.StatusOK || !x.Whole || json.Unmarshal(x.Body, &answer) != nil {
		return channels.OutcomeUnknown(channels.PhaseNone, code, "the look-up's reply is not 200 with a status: "+http.StatusText(x.Status))
	}
	switch answer.Status {
	case "accepted":
		return channels.OutcomeAccepted(answer.ID, code, "the receiver says that it accepted this key")
	case "not-found":
		return channels.OutcomeNotSent(channels.PhaseReply, code, "the receiver says that it never accepted this key")
	}
	return channels.OutcomeUnknown(channels.PhaseNone, code, "the receiver cannot tell")
}
