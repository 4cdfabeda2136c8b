package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/wire"
)

// say tells the reader what happens; with --json nobody reads.
func (s *story) say(format string, args ...any) {
	if !s.asJSON {
		fmt.Fprintf(s.out, format+"\n", args...)
	}
}

func (s *story) promise(text string, held bool, seen string) {
	s.result.Promises = append(s.result.Promises, promise{text, held, seen})
}

func (s *story) key(kind string) dedup.Key { return dedup.Key(kind + ":8841:" + s.run) }

func (s *story) mail(kind, to, subject, text string) wire.Request {
	content, err := json.Marshal(map[string]string{"subject": subject, "text": text})
	if err != nil {
		panic(err) // strings can be written
	}
	return wire.Request{Key: s.key(kind), OccurredAt: s.at, Recipient: to, Content: content}
}

func (s *story) receipt(text string) wire.Request {
	return s.mail("receipt-mail", "ada@example.org", "Your receipt", text)
}

func (s *story) submit(ctx context.Context, channel string, r wire.Request) (wire.Reply, error) {
	reply, err := s.shop.Submit(ctx, channel, r)
	if err != nil {
		return reply, fmt.Errorf("submitting %s: %w", r.Key, err)
	}
	line := fmt.Sprintf("   %s rev %d → %s", r.Key, r.Revision, reply.Verdict)
	if reply.Message != "" {
		line += ": " + reply.Message
	}
	s.say("%s", line)
	return reply, nil
}

// mails is what has arrived in the inbox.
func (s *story) mails() []local.Mail { return s.host.inbox.Mails() }

// recall asks for the state of every intent of the story.
func (s *story) recall(ctx context.Context) error {
	for _, i := range []struct {
		channel, kind string
		revision      int32
	}{{mailChannel, "receipt-mail", 0}, {mailChannel, "delivery-mail", 0}, {mailChannel, "delivery-mail", 1}, {mailChannel, "statement-mail", 0}, {hookChannel, "order-paid", 0}} {
		st, err := s.shop.Status(ctx, i.channel, s.key(i.kind), i.revision)
		if err != nil {
			return fmt.Errorf("asking for %s: %w", s.key(i.kind), err)
		}
		s.result.Intents = append(s.result.Intents, st)
	}
	return nil
}

// print shows what arrived, what each intent says, and the promises.
func (s *story) print() {
	s.say("\nWhat arrived")
	for _, m := range s.result.Mails {
		s.say("  mail  to %-18s %q", strings.Join(m.To, ","), m.Subject)
	}
	for _, c := range s.result.Calls {
		effect := "a repeat of its key; not applied again"
		if c.Applied {
			effect = "applied"
		}
		s.say("  call  POST %s  Idempotency-Key %s  %s", c.Path, c.Key, effect)
	}
	s.say("\nWhat each intent says")
	for _, st := range s.result.Intents {
		s.say("  %-36s rev %d  %-10s  %d attempt(s), %s", st.Key, st.Revision, st.State, st.Attempts, st.Guarantee)
		if st.Message != "" {
			s.say("    %s", oneLine(st.Code+": "+st.Message))
		}
	}
	s.say("\nPromises")
	for _, p := range s.result.Promises {
		mark := "ok    "
		if !p.Held {
			mark = "BROKEN"
		}
		s.say("  %s %s (%s)", mark, p.Text, p.Seen)
	}
}
