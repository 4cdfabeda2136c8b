package smtp

import (
	"context"
	"net/textproto"
	"time"

	protocol "github.com/wneessen/go-mail/smtp"
)

// letter is one mail of one attempt.
type letter struct {
	sender, recipient string // envelope, bare
	bytes             []byte
	before            time.Time // every step before the final dot ends by then
	limit             time.Time // the attempt ends by then
	command           time.Duration
}

// deliver runs one mail transaction, one command at a time, and returns the reply to the final dot. After a fault at or
// behind DATA the session must be cut, never quit.
func (s *session) deliver(ctx context.Context, l letter) (reply, *fault) {
	s.used = time.Now()
	needsUTF8 := !isASCII(l.recipient)
	if f := s.fits(l, needsUTF8); f != nil {
		return reply{}, f
	}
	step := func() { s.wire.step(earlier(time.Now().Add(l.command), l.before)) }

	step()
	s.client.SkipSMTPUTF8(!needsUTF8) // asked for where it is needed only: a next server without it would have to bounce
	if err := s.client.Mail("<" + l.sender + ">"); err != nil {
		return reply{}, newFault(stageMail, err).with(needsUTF8)
	}
	s.dirty = true
	step()
	if err := s.client.Rcpt("<" + l.recipient + ">"); err != nil {
		return reply{}, newFault(stageRcpt, err)
	}
	step()
	data, err := s.client.Data()
	if err != nil {
		return reply{}, newFault(stageData, err)
	}
	s.wire.step(l.before) // one deadline for the whole body
	if _, err := data.Write(l.bytes); err != nil {
		return reply{}, newFault(stageBody, err)
	}
	if err := s.client.Text.W.Flush(); err != nil { // so that the dot is a write of its own, which did or did not happen
		return reply{}, newFault(stageBody, err)
	}
	return s.dot(ctx, l, data.(*protocol.DataCloser))
}

func (s *session) fits(l letter, needsUTF8 bool) *fault {
	switch {
	case needsUTF8 && !s.utf8:
		return &fault{stage: stageMail, err: errNoUTF8}
	case s.maxSize > 0 && int64(len(l.bytes)) > s.maxSize:
		return &fault{stage: stageMail, err: errTooLarge}
	}
	return nil
}

// dot commits. Up to here nothing can have been applied; from the first byte of the dot on, only a reply says what was.
func (s *session) dot(ctx context.Context, l letter, data *protocol.DataCloser) (reply, *fault) {
	switch {
	case ctx.Err() != nil:
		return reply{}, &fault{stage: stageBody, err: ctx.Err()}
	case s.client.Text.R.Buffered() > 0: // a reply to nothing would be taken for the reply to the dot
		return reply{}, &fault{stage: stageBody, err: errEarlyReply}
	}
	s.wire.step(l.limit)
	sent := s.wire.sent
	if err := data.Close(); err != nil {
		f := newFault(stageDot, err)
		if s.wire.sent == sent {
			f.stage = stageBody // not one byte of it left this process
		}
		return reply{}, f
	}
	s.mails++
	s.dirty = false
	s.used = time.Now()
	return newReply(&textproto.Error{Code: 250, Msg: data.ServerResponse()}), nil
}
