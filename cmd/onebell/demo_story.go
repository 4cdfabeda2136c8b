package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

const (
	demoCaller    = "shop"
	lostRecipient = "grace@example.org"

	settleLimit = 30 * time.Second // for a step to come to its end
	quietFor    = 3 * time.Second  // in which nothing more may arrive; a resend would come within a second or two
)

// story is one run of the demo.
type story struct {
	run    string // makes the keys of this run new, also on a database that remembers others
	out    io.Writer
	asJSON bool
	result demoResult

	shop *client.Client
	host *oneHost
	at   time.Time // when the facts of the story happened
	hook string    // address that hooks are sent to
}

// demoResult is what the demo found.
type demoResult struct {
	Mails    []local.Mail  `json:"mails"`
	Calls    []local.Call  `json:"calls"`
	Intents  []wire.Status `json:"intents"`
	Promises []promise     `json:"promises"`
}

// promise is one thing that must hold.
type promise struct {
	Text string `json:"promise"`
	Held bool   `json:"held"`
	Seen string `json:"seen"`
}

func newStory(run string, out io.Writer, asJSON bool) *story {
	return &story{run: run, out: out, asJSON: asJSON, at: time.Now().Add(-time.Minute).UTC().Truncate(time.Second)}
}

// play tells the story. Its error says that it could not be told; whether the promises held is in the result.
func (s *story) play(ctx context.Context, shop *client.Client, h *oneHost) error {
	s.shop, s.host, s.hook = shop, h, h.receiver.URL()+"orders"
	for _, chapter := range []func(context.Context) error{s.threeTimes, s.otherMeaning, s.revisions, s.lostMailReply, s.lostCallReply, s.quiet} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	s.result.Mails, s.result.Calls = s.mails(), h.receiver.Calls()
	return s.recall(ctx)
}

func (s *story) threeTimes(ctx context.Context) error {
	s.say("\n1. A client publishes one receipt three times, because it never trusts its network.")
	var verdicts []string
	for range 3 {
		reply, err := s.submit(ctx, mailChannel, s.receipt("Thank you for your order 8841."))
		if err != nil {
			return err
		}
		verdicts = append(verdicts, string(reply.Verdict))
	}
	state, err := s.settled(ctx, mailChannel, s.key("receipt-mail"), 0, intents.Succeeded)
	if err != nil {
		return err
	}
	s.promise("three publishes are answered accepted, duplicate, duplicate", slices.Equal(verdicts, []string{"accepted", "duplicate", "duplicate"}), strings.Join(verdicts, ", "))
	s.promise("the receipt's intent is succeeded", state == string(intents.Succeeded), state)
	return nil
}

func (s *story) otherMeaning(ctx context.Context) error {
	s.say("\n2. Somebody uses the same key for something else.")
	reply, err := s.submit(ctx, mailChannel, s.receipt("Your order 8841 is free of charge!"))
	if err != nil {
		return err
	}
	fields := strings.Join(reply.Fields, ", ")
	s.promise("the same key with another meaning is a conflict, and names what differs", reply.Verdict == wire.Conflict && fields == "content", fmt.Sprintf("%s: %s", reply.Verdict, fields))
	return nil
}

func (s *story) revisions(ctx context.Context) error {
	s.say("\n3. A delivery notice waits for the evening; before that the date changes: revision 1.")
	first := s.mail("delivery-mail", "ada@example.org", "Your delivery", "It comes on Monday.")
	first.NotBefore = time.Now().Add(time.Hour)
	second := s.mail("delivery-mail", "ada@example.org", "Your delivery, new date", "It comes on Tuesday.")
	second.Revision = 1
	for _, r := range []wire.Request{first, second} {
		if _, err := s.submit(ctx, mailChannel, r); err != nil {
			return err
		}
	}
	newer, err := s.settled(ctx, mailChannel, first.Key, 1, intents.Succeeded)
	if err != nil {
		return err
	}
	older, err := s.settled(ctx, mailChannel, first.Key, 0, intents.SupersededState)
	if err != nil {
		return err
	}
	late, err := s.submit(ctx, mailChannel, first) // a retry that comes late
	if err != nil {
		return err
	}
	s.promise("revision 1 is sent and supersedes revision 0, which waits", newer == string(intents.Succeeded) && older == string(intents.SupersededState), "revision 0 "+older+", revision 1 "+newer)
	s.promise("a late retry of revision 0 sends nothing", late.Verdict == wire.Duplicate && late.State == string(intents.SupersededState), fmt.Sprintf("%s, %s", late.Verdict, late.State))
	return nil
}

func (s *story) lostMailReply(ctx context.Context) error {
	s.say("\n4. The mail server takes a mail and the connection breaks before it can say so.")
	if _, err := s.submit(ctx, mailChannel, s.mail("statement-mail", lostRecipient, "Your statement", "See inside.")); err != nil {
		return err
	}
	state, err := s.settled(ctx, mailChannel, s.key("statement-mail"), 0, intents.UnknownState)
	if err != nil {
		return err
	}
	s.promise("nobody knows whether that mail was sent, and the intent says so", state == string(intents.UnknownState), state)
	return nil
}

func (s *story) lostCallReply(ctx context.Context) error {
	s.say("\n5. A hook is applied and its reply lost; the receiver deduplicates on Idempotency-Key, so it may be sent again.")
	r := wire.Request{Key: s.key("order-paid"), OccurredAt: s.at, Recipient: s.hook, Content: json.RawMessage(`{"type":"order.paid","data":{"order":8841,"total":"17.90"}}`)}
	if _, err := s.submit(ctx, hookChannel, r); err != nil {
		return err
	}
	state, err := s.settled(ctx, hookChannel, r.Key, 0, intents.Succeeded)
	if err != nil {
		return err
	}
	st, err := s.shop.Status(ctx, hookChannel, r.Key, 0)
	if err != nil {
		return err
	}
	s.promise("the hook's intent is succeeded, and its resend is counted as a possible duplicate", state == string(intents.Succeeded) && st.PossibleDuplicates == 1, fmt.Sprintf("%s, %d possible duplicate(s)", state, st.PossibleDuplicates))
	return nil
}

// quiet waits for what must not come, and counts.
func (s *story) quiet(ctx context.Context) error {
	s.say("\n6. Waiting whether anything more arrives …")
	if err := wait(ctx, quietFor); err != nil {
		return err
	}
	count := func(subject string) int {
		return len(slices.DeleteFunc(s.mails(), func(m local.Mail) bool { return m.Subject != subject }))
	}
	s.promise("three publishes and a conflict made one mail", count("Your receipt") == 1, fmt.Sprintf("%d mail(s)", count("Your receipt")))
	s.promise("of two revisions the newer one arrived", count("Your delivery") == 0 && count("Your delivery, new date") == 1,
		fmt.Sprintf("%d of revision 0, %d of revision 1", count("Your delivery"), count("Your delivery, new date")))
	s.promise("the mail whose reply was lost was not sent a second time", count("Your statement") == 1, fmt.Sprintf("%d mail(s)", count("Your statement")))
	calls := s.host.receiver.Calls()
	applied := 0
	for _, c := range calls {
		if c.Applied {
			applied++
		}
	}
	same := len(calls) == 2 && calls[0].Key != "" && calls[0].Key == calls[1].Key && calls[0].Body == calls[1].Body
	s.promise("the hook was sent twice with one key and the same bytes", same, fmt.Sprintf("%d call(s), same key and bytes: %t", len(calls), same))
	s.promise("the hook was applied once", applied == 1, fmt.Sprintf("applied %d time(s)", applied))
	return nil
}

// settled waits until the intent has the wanted state, or comes to another end, and returns its state.
func (s *story) settled(ctx context.Context, channel string, key dedup.Key, revision int32, want intents.State) (string, error) {
	limit, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		st, err := s.shop.Status(limit, channel, key, revision)
		if err != nil {
			return "", err
		}
		if state := intents.State(st.State); state == want || state.Terminal() {
			return st.State, nil
		}
		if err := wait(limit, 50*time.Millisecond); err != nil {
			return st.State, ctx.Err() // the step's own time is over: the promise will say in which state it stands
		}
	}
}
