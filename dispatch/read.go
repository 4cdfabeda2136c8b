package dispatch

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// draft is a letter on its way to an admission.
type draft struct {
	entry   *entry
	now     time.Time // the database's clock
	route   wire.Route
	request wire.Request
	via     channels.Entry
	rules   channels.Contract
	meaning dedup.Meaning
}

// steps lead from a letter to an admission; the first error is the letter's refusal.
var steps = []func(*intake, *draft) error{
	(*intake).readSubject,
	(*intake).readHeaders,
	(*intake).decode,
	(*intake).lookUpChannel,
	(*intake).validate,
	(*intake).fingerprint,
	(*intake).judgeTime,
	(*intake).deriveKeys,
	(*intake).render,
	(*intake).schedule,
}

func (in *intake) readAll(letters []letter) []*entry {
	now := in.clock.now()
	batch := make([]*entry, len(letters))
	for i, l := range letters {
		batch[i] = in.read(l, now)
	}
	return batch
}

// read takes a letter through the steps. A panic in one of them is this letter's refusal, and nobody else's.
func (in *intake) read(l letter, now time.Time) *entry {
	d := &draft{entry: &entry{letter: l}, now: now}
	if err := in.walk(d); err != nil {
		d.entry.refusal = in.refusalOf(d.entry, err)
	}
	return d.entry
}

func (in *intake) walk(d *draft) (err error) {
	defer func() {
		if v := recover(); v != nil {
			in.log.Error("a step of admission panicked; the request is put aside", "seq", d.entry.letter.seq,
				"channel", in.metrics.channel(d.route.Channel), "panic", panicName(v), "stack", string(debug.Stack()))
			err = errInternal
		}
	}()
	for _, step := range steps {
		if err := step(in, d); err != nil {
			return err
		}
	}
	return nil
}

func (in *intake) readSubject(d *draft) (err error) {
	d.route, err = wire.ParseSubject(d.entry.letter.subject)
	d.entry.channel = d.route.Channel
	d.entry.admission.Identity = dedup.Identity{Caller: d.route.Caller, Channel: d.route.Channel}
	return err
}

func (in *intake) readHeaders(d *draft) error {
	d.entry.admission.Traceparent = wire.Traceparent(d.entry.letter.header)
	return wire.CheckHeaders(d.entry.letter.header)
}

func (in *intake) decode(d *draft) (err error) {
	d.request, err = wire.Decode(d.entry.letter.data)
	d.entry.admission.Identity.Key, d.entry.admission.Identity.Revision = d.request.Key, d.request.Revision
	d.entry.decoded = err == nil
	return err
}

func (in *intake) lookUpChannel(d *draft) error {
	via, ok := in.registry.Lookup(d.route.Channel)
	if !ok {
		return &wire.Refusal{
			Code:    wire.CodeChannelUnknown,
			Message: "no channel of that name is configured; check the last part of the subject, or ask the operators to configure it",
		}
	}
	d.via, d.rules, d.entry.lane = via, via.Channel.Contract(), in.lanes[via.Name]
	d.entry.admission.Guarantee, d.entry.admission.KeyScope = d.rules.Guarantee, d.rules.KeyScope
	return nil
}

func (in *intake) validate(d *draft) (err error) {
	if most := d.rules.MaxContentBytes; most > 0 && len(d.request.Content) > most {
		return &channels.Refusal{
			Code: channels.CodeContentTooLarge, Field: "content",
			Message: fmt.Sprintf("the content has %d bytes and may have %d on this channel; shorten it or send a link", len(d.request.Content), most),
		}
	}
	d.meaning.Recipient, err = d.via.Channel.Validate(d.request.Recipient, d.request.Content)
	return err
}

func (in *intake) fingerprint(d *draft) (err error) {
	d.meaning, err = dedup.NewMeaning(d.meaning.Recipient, d.request.Content, d.request.CollapseID, d.request.OccurredAt)
	d.entry.admission.Meaning, d.entry.admission.Fingerprint = d.meaning, d.meaning.Fingerprint()
	d.entry.admission.RecipientHash = in.deriver.RecipientHash(d.meaning.Recipient)
	return err
}

func (in *intake) judgeTime(d *draft) error {
	switch in.horizon.Admits(d.meaning.OccurredAt, d.now) {
	case dedup.TooOld:
		return errStale
	case dedup.TooFuture:
		return &wire.Refusal{
			Code: wire.CodeOccurredAtFuture, Field: "occurred_at",
			Message: "occurred_at lies in the future; send the fact's own time, and check the clock of the producer",
		}
	}
	return nil
}

func (in *intake) deriveKeys(d *draft) (err error) {
	id := d.entry.admission.Identity
	d.entry.admission.EffectKey, err = in.deriver.EffectKey(id).Encode(dedup.Format(d.rules.KeyFormat))
	if err == nil && d.rules.CollapseFormat != "" {
		d.entry.admission.CollapseKey, err = in.deriver.CollapseKey(id, d.meaning.CollapseID).Encode(dedup.Format(d.rules.CollapseFormat))
	}
	return err
}

func (in *intake) render(d *draft) (err error) {
	date := d.now
	if d.request.NotBefore.After(date) {
		date = d.request.NotBefore
	}
	d.entry.admission.Rendered, err = d.via.Channel.Render(channels.Message{
		EffectKey: d.entry.admission.EffectKey, CollapseKey: d.entry.admission.CollapseKey, CollapseGiven: d.meaning.CollapseID != "",
		Recipient: d.meaning.Recipient, Content: d.meaning.Content, OccurredAt: d.meaning.OccurredAt, Date: dedup.Instant(date),
	})
	return err
}

func (in *intake) schedule(d *draft) error {
	a, r := &d.entry.admission, d.request
	a.Token = uuid.Must(uuid.NewV7())
	a.NotBefore, a.ExpiresAt, a.Labels = r.NotBefore, r.ExpiresAt, r.Labels
	a.Priority = map[wire.Priority]intents.Priority{wire.High: intents.High, wire.Low: intents.Low}[r.Priority]
	if r.Priority != wire.High && r.Priority != wire.Low {
		a.Priority = intents.Normal
	}
	d.entry.late = !r.ExpiresAt.IsZero() && !d.now.Before(r.ExpiresAt)
	return nil
}

// Refusals that are made in more than one place.
var (
	errStale = &wire.Refusal{
		Code: wire.CodeOccurredAtStale, Field: "occurred_at",
		Message: "the fact is older than the horizon, so it is not known any more whether its key was used; if it must be told, tell it under a new key",
	}
	errInternal = &wire.Refusal{Code: wire.CodeInternal, Message: "the service failed on this request and put it aside; report it to the operators of onebell"}
	errExpired  = &wire.Refusal{
		Code: wire.CodeExpired, Field: "expires_at",
		Message: "expires_at had passed when the request arrived; nothing was sent",
	}
)

// refusalOf is the record of a letter that was not admitted. Letters that could not be read keep their shape, without values.
func (in *intake) refusalOf(e *entry, err error) *intents.Refusal {
	said, id := in.explain(err), e.admission.Identity
	r := &intents.Refusal{
		ID: e.letter.refusal, At: in.clock.now(), Verdict: intents.Refused, Code: said.Code, Message: said.Message,
		Caller: id.Caller, Channel: id.Channel, Key: string(id.Key), Revision: id.Revision,
		Subject: plain(e.letter.subject), StreamSeq: e.letter.seq,
	}
	if said == errStale {
		r.Verdict = intents.Stale
	}
	if said.Field != "" {
		r.Fields = []string{said.Field}
	}
	if !e.decoded || said == errInternal {
		r.Sample = wire.Sample(e.letter.data)
		in.metrics.quarantined.Inc()
	}
	return r
}

// explain brings the errors of all steps to one form.
func (in *intake) explain(err error) *wire.Refusal {
	var said *wire.Refusal
	var channel *channels.Refusal
	var input *dedup.InputError
	switch {
	case errors.As(err, &said):
		return said
	case errors.As(err, &channel):
		return &wire.Refusal{Code: channel.Code, Field: channel.Field, Message: channel.Message}
	case errors.As(err, &input):
		return &wire.Refusal{Code: input.Code, Field: input.Field, Message: input.Message}
	}
	in.log.Error("a step of admission failed with an error that is no refusal", "type", fmt.Sprintf("%T", err))
	return errInternal
}

// plain makes a subject fit to be stored: it may hold any bytes.
func plain(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}
