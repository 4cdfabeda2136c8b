package dispatch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// admit has a batch decided by the store, which answers for each admission apart, also where the database will not take a value of
// it. An error is the database's, never a request's: the whole batch comes again.
func (in *intake) admit(ctx context.Context, batch []*entry, patience time.Duration) {
	if len(batch) == 0 {
		return
	}
	request := in.admitBatch(batch)
	before := time.Now()
	var verdicts []intents.Verdict
	err := in.try(ctx, patience, "admit", func(call context.Context) (err error) {
		fault.At(fault.AdmitBefore)
		verdicts, err = in.store.Admit(call, request)
		return err
	})
	if err != nil {
		for _, e := range batch {
			e.err = err
		}
		return
	}
	fault.At(fault.AdmitDone)
	in.metrics.batchSize.WithLabelValues("admit").Observe(float64(len(batch)))
	in.note(batch, verdicts, request, before)
}

func (in *intake) admitBatch(batch []*entry) intents.AdmitBatch {
	request := intents.AdmitBatch{Batch: uuid.New(), Owner: in.owner}
	for _, e := range batch {
		request.Admissions = append(request.Admissions, e.admission)
		if e.reserved {
			request.Lease = max(request.Lease, e.lane.lease)
		}
	}
	return request
}

// note takes the verdicts in. Every claim's trust counts from before the first call, whichever call it was that claimed.
func (in *intake) note(batch []*entry, verdicts []intents.Verdict, request intents.AdmitBatch, before time.Time) {
	now, claims := in.clock.now(), map[uuid.UUID]int{}
	for i, e := range batch {
		e.verdict = verdicts[i]
		if c := e.verdict.Claim; c != nil && e.reserved {
			c.Trust = intents.NewTrust(before, request.Lease, e.lane.policy.Contract.AttemptTimeout)
			claims[c.Batch]++
		}
		if e.verdict.Kind != intents.Accepted && e.verdict.Kind != intents.Duplicate {
			e.refusal = in.verdictRefusal(e)
		} else if !e.letter.published.IsZero() {
			in.metrics.admitLag.Observe(now.Sub(e.letter.published).Seconds())
		}
	}
	for id, n := range claims {
		in.settler.expect(id, n)
	}
}

// refuse stores the refusals. Nothing is refused without a trace: what cannot be stored comes again.
func (in *intake) refuse(ctx context.Context, batch []*entry, patience time.Duration) {
	var refused []*entry
	var rows []intents.Refusal
	for _, e := range batch {
		if e.refusal != nil && e.err == nil {
			refused, rows = append(refused, e), append(rows, *e.refusal)
		}
	}
	if len(rows) == 0 {
		return
	}
	err := in.try(ctx, patience, "refuse", func(call context.Context) error { return in.store.Refuse(call, rows) })
	for _, e := range refused {
		e.err = err
	}
	if err == nil {
		fault.At(fault.RefuseDone)
		in.relay.bell.ring()
	}
}

// answer tells every sender what became of its request.
func (in *intake) answer(batch []*entry) {
	fault.At(fault.AnswerBefore)
	for _, e := range batch {
		if e.err != nil {
			e.letter.back.postpone()
			continue
		}
		reply := e.reply()
		in.metrics.verdict(e.channel, reply.Verdict)
		e.letter.back.answer(reply)
	}
	fault.At(fault.AnswerDone)
}
