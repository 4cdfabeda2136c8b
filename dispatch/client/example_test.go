package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

// order is a row of the producer's own database.
type order struct {
	ID     string
	Mail   string
	PaidAt time.Time
}

// Telling one fact: publish until it is stored. Every repeat, also after a crash of this program, is the same request, because
// everything in it comes from the order's record and nothing from this moment.
func ExampleClient_Publish() {
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Options{URL: "nats://127.0.0.1:4222", Caller: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	o := order{ID: "8841", Mail: "ada@example.org", PaidAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)}
	key, err := client.Key("receipt-mail", o.ID)
	if err != nil {
		log.Fatal(err)
	}
	content, err := json.Marshal(map[string]string{"subject": "Your receipt", "text": "Thank you for order " + o.ID + "."})
	if err != nil {
		log.Fatal(err)
	}
	request := client.Request{Key: key, OccurredAt: o.PaidAt, Recipient: o.Mail, Content: content}
	for {
		_, err := c.Publish(ctx, "mail", request)
		var refused *wire.Refusal
		switch {
		case err == nil:
			return // stored by the broker: it will be decided, whatever happens to this program
		case errors.As(err, &refused), errors.Is(err, client.ErrPermission):
			log.Fatal(err) // a mistake in this program or in its permissions: trying again changes nothing
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// Telling a fact and hearing the verdict at once.
func ExampleClient_Submit() {
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Options{URL: "nats://127.0.0.1:4222", Caller: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reply, err := c.Submit(ctx, "mail", client.Request{
		Key: "receipt-mail:8841", OccurredAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
		Recipient: "ada@example.org", Content: json.RawMessage(`{"subject":"Your receipt","text":"Thank you."}`),
	})
	if err != nil {
		log.Fatal(err) // no verdict: submit the same again
	}
	switch reply.Verdict {
	case wire.Accepted, wire.Duplicate:
		fmt.Println("on record as", reply.Intent, "and now", reply.State)
	case wire.Conflict:
		fmt.Println("the key was used for something else; these differ:", reply.Fields)
	default:
		fmt.Println(reply.Verdict, reply.Code, reply.Message)
	}
}

// A fact whose content changes is told by revisions. An older one that was not sent yet never is.
func ExampleRequest_revision() {
	arrival := client.Request{
		Key: "flight:LH123:2026-11-30", Revision: 2, OccurredAt: time.Date(2026, 11, 30, 10, 5, 0, 0, time.UTC),
		Recipient: "topic:LH123", Content: json.RawMessage(`{"title":"LH123","body":"Lands at 12:40"}`),
		ExpiresAt: time.Date(2026, 11, 30, 12, 40, 0, 0, time.UTC),
	}
	payload, err := arrival.Encode()
	fmt.Println(len(payload) > 0, err)
	// Output: true <nil>
}

// Asking by key, and taking back what was not sent yet.
func ExampleClient_Status() {
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Options{URL: "nats://127.0.0.1:4222", Caller: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	status, err := c.Status(ctx, "mail", "receipt-mail:8841", 0)
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Println("never admitted, or not yet")
	case err != nil:
		log.Fatal(err)
	case status.State == "pending":
		cancelled, err := c.Cancel(ctx, "mail", "receipt-mail:8841", 0)
		fmt.Println(cancelled.Result, err)
	default:
		fmt.Println(status.State, status.Code, status.Message)
	}
}

// Hearing outcomes, also those from while this program was down. Events may come twice: the same ID is the same event.
func ExampleClient_Events() {
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Options{URL: "nats://127.0.0.1:4222", Caller: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	err = c.Events(ctx, func(_ context.Context, e client.Event) error {
		if e.DeadRecipient {
			fmt.Println("forget the recipient of", e.Key)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
