package wire

import (
	"errors"

	"github.com/onebell/onebell/dedup"
)

// Refusal says why a message was not taken. Message is a sentence that says what to do; no member holds a value that the producer sent.
type Refusal struct {
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"` // "key", "content.subject" …; "" for the whole message
	Message string `json:"message"`
}

// Error joins code, field and sentence; it is safe to log.
func (r *Refusal) Error() string {
	if r.Field == "" {
		return r.Code + ": " + r.Message
	}
	return r.Code + ": " + r.Field + ": " + r.Message
}

func refuse(code, field, message string) *Refusal { return &Refusal{code, field, message} }

// fromInput turns what dedup says into a refusal.
func fromInput(err error) *Refusal {
	var e *dedup.InputError
	if errors.As(err, &e) {
		return &Refusal{e.Code, e.Field, e.Message}
	}
	return &Refusal{CodeInternal, "", "the message could not be checked; report this to the operators of onebell"}
}

// Codes that this package and the dispatcher make. Those of packages dedup and channels are in Codes as well.
const (
	CodeSubjectInvalid    = "subject_invalid"
	CodeHeaderForbidden   = "header_forbidden"
	CodePayloadTooLarge   = "payload_too_large"
	CodeMemberUnknown     = "member_unknown"
	CodeMemberMissing     = "member_missing"
	CodeMemberType        = "member_type"
	CodeRevisionInvalid   = "revision_invalid"
	CodeTimeInvalid       = "time_invalid"
	CodeCollapseIDInvalid = "collapse_id_invalid"
	CodePriorityInvalid   = "priority_invalid"
	CodeLabelsInvalid     = "labels_invalid"
	CodeRecipientInvalid  = "recipient_invalid"
	CodeContentInvalid    = "content_invalid"
	CodeContentTooLarge   = "content_too_large"
	CodeChannelUnknown    = "channel_unknown"
	CodeOccurredAtFuture  = "occurred_at_future"
	CodeOccurredAtStale   = "occurred_at_stale"
	CodeExpired           = "expired"
	CodeKeyConflict       = "key_conflict"
	CodeRevisionOld       = "revision_superseded"
	CodeNotFound          = "not_found"
	CodeUnavailable       = "unavailable"
	CodeInternal          = "internal"
)

// CodeInfo explains a code.
type CodeInfo struct{ Code, Explanation string }

// Codes returns every code that a refusal or an error reply can carry. Programs of producers branch on them: the list is only ever
// appended to, and a code never changes its meaning.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeSubjectInvalid, "The subject is not of the form onebell.request.<caller>.<channel> (or that of the question asked)."},
		{dedup.CodeCallerInvalid, "The caller in the subject is not 1 to 64 of a-z 0-9 _ -."},
		{dedup.CodeChannelInvalid, "The channel name is not 1 to 32 of a-z 0-9 _ -."},
		{CodeHeaderForbidden, "The message carries a header by which the broker would act on other messages."},
		{CodePayloadTooLarge, "The payload is larger than the service takes."},
		{dedup.CodeJSONInvalid, "The payload is not one JSON value."},
		{dedup.CodeJSONUTF8, "A text is not valid UTF-8, or holds half of a surrogate pair."},
		{dedup.CodeJSONNUL, "A text holds U+0000, which cannot be stored."},
		{dedup.CodeJSONDuplicateMember, "An object names one member twice."},
		{dedup.CodeJSONNumber, "A number cannot be kept exactly; send it as a string."},
		{dedup.CodeJSONDepth, "The JSON is nested too deeply."},
		{CodeMemberUnknown, "The payload has a member that does not exist; it is refused because ignoring it would lose what it says."},
		{CodeMemberMissing, "A required member is absent or null."},
		{CodeMemberType, "A member has the wrong JSON type."},
		{dedup.CodeKeyInvalid, "The key is not of the form kind:entity[:qualifier]."},
		{CodeRevisionInvalid, "The revision is not an integer from 0 to 2147483647."},
		{CodeTimeInvalid, "A time is not RFC 3339 with an offset."},
		{CodeCollapseIDInvalid, "The collapse_id is too long or holds characters that cannot be shown."},
		{CodePriorityInvalid, "The priority is not high, normal or low."},
		{CodeLabelsInvalid, "There are too many labels, or one has a bad name or value."},
		{CodeRecipientInvalid, "The channel cannot send to such a recipient."},
		{CodeContentInvalid, "The channel cannot send such content."},
		{CodeContentTooLarge, "The content is larger than the channel can send."},
		{CodeChannelUnknown, "No channel of that name is configured."},
		{CodeOccurredAtFuture, "occurred_at lies in the future: it must be the fact's own time, the same on every retry."},
		{CodeOccurredAtStale, "occurred_at lies behind the horizon: whether the key was used before is no longer known."},
		{CodeExpired, "expires_at had passed before the request was admitted."},
		{CodeKeyConflict, "The key stands for a request that means something else; the members that differ are named."},
		{CodeRevisionOld, "A higher revision of the fact was admitted before."},
		{CodeNotFound, "There is no intent of that caller, channel, key and revision, or it was forgotten."},
		{CodeUnavailable, "The service cannot answer at the moment and may or may not have acted; ask again, it is safe."},
		{CodeInternal, "The service made a mistake; it is in its log."},
	}
}
