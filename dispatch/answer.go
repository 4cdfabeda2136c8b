package dispatch

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// verdictRefusal is the record of a request that the store decided against.
func (in *intake) verdictRefusal(e *entry) *intents.Refusal {
	v, id := e.verdict, e.admission.Identity
	r := &intents.Refusal{
		ID: e.letter.refusal, At: in.clock.now(), Verdict: v.Kind, Intent: v.Intent, Fields: v.Fields,
		Caller: id.Caller, Channel: id.Channel, Key: string(id.Key), Revision: id.Revision,
		Subject: plain(e.letter.subject), StreamSeq: e.letter.seq,
	}
	switch v.Kind {
	case intents.Conflict:
		r.Code = wire.CodeKeyConflict
		r.Message = "the key stands for a request that means something else (" + strings.Join(v.Fields, ", ") +
			"); send a changed fact as a new revision, and another fact under another key"
	case intents.Superseded:
		r.Code = wire.CodeRevisionOld
		r.Message = fmt.Sprintf("revision %d of the fact was admitted before; an older one is not sent after it", v.Newer)
	case intents.Stale:
		r.Code, r.Message, r.Fields = errStale.Code, errStale.Message, []string{errStale.Field}
	default: // the database would not take a value that passed every check
		r.Code, r.Message, r.Sample = errInternal.Code, errInternal.Message, wire.Sample(e.letter.data)
	}
	return r
}

// reply is what the sender is told.
func (e *entry) reply() wire.Reply {
	if r := e.refusal; r != nil {
		return wire.Reply{
			Verdict: wire.Verdict(r.Verdict), Intent: name(r.Intent), State: string(e.verdict.State),
			Code: r.Code, Message: r.Message, Fields: r.Fields, Newer: e.verdict.Newer,
		}
	}
	v := e.verdict
	reply := wire.Reply{Verdict: wire.Verdict(v.Kind), Intent: name(v.Intent), State: string(v.State), Message: "it is on record and will be sent"}
	if v.Kind == intents.Duplicate {
		reply.Message = "it was accepted before; nothing new will be sent"
	}
	return reply
}

// name writes an intent's id, "" for none.
func name(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}
