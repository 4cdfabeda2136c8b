package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/wire"
)

// The types of the contract, under the SDK's own name.
type (
	Request   = wire.Request
	Reply     = wire.Reply
	Status    = wire.Status
	Cancelled = wire.Cancelled
	Event     = wire.Event
)

// Patience bounds a call whose context has no deadline.
const Patience = 10 * time.Second

// Options say how to connect. URL and Caller are required.
type Options struct {
	URL    string // nats://host:4222, several separated by commas
	Caller string // this producer's name; the server's permissions bind it to the user

	CredentialsFile string // a .creds file
	User, Password  string
	CAFile          string // PEM file of the authority that signed the server's certificate

	InboxPrefix string        // "" means _INBOX.<caller>, which deploy/nats-server.conf allows
	NATS        []nats.Option // anything else; applied last
}

// Client publishes requests of one caller. It is safe for concurrent use.
type Client struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	caller  string
	owned   bool
	denials *denials
	inject  func(context.Context, wire.Carrier)
}

// Connect opens a connection that reconnects for ever. The context's deadline, if it has one, bounds the first connecting.
func Connect(ctx context.Context, o Options) (*Client, error) {
	caller, err := dedup.ParseCaller(o.Caller)
	if err != nil {
		return nil, err
	}
	prefix := o.InboxPrefix
	if prefix == "" {
		prefix = "_INBOX." + caller
	}
	opts := []nats.Option{nats.Name("onebell producer " + caller), nats.MaxReconnects(-1), nats.CustomInboxPrefix(prefix)}
	if o.CredentialsFile != "" {
		opts = append(opts, nats.UserCredentials(o.CredentialsFile))
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if end, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(max(time.Until(end), time.Millisecond)))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nc, err := nats.Connect(o.URL, append(opts, o.NATS...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to NATS; check address and credentials: %w", err)
	}
	c, err := New(nc, caller)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.owned = true
	return c, nil
}

// New uses a connection that stands. It puts itself before the connection's error handler, because NATS reports permission
// violations there alone; a handler that is set later hides them from the client.
func New(nc *nats.Conn, caller string) (*Client, error) {
	caller, err := dedup.ParseCaller(caller)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Client{nc: nc, js: js, caller: caller, denials: attach(nc)}, nil
}

// WithTrace returns a client on the same connection that has inject write each request's trace headers. With OpenTelemetry:
//
//	c = c.WithTrace(func(ctx context.Context, h wire.Carrier) { otel.GetTextMapPropagator().Inject(ctx, h) })
func (c *Client) WithTrace(inject func(context.Context, wire.Carrier)) *Client {
	traced := *c
	traced.inject = inject
	return &traced
}

// Close closes the connection if Connect opened it. Calls that wait end with ErrNoAnswer.
func (c *Client) Close() {
	if c.owned {
		c.nc.Close()
	}
}

// Stored says that the broker has a request on its disk. It is no verdict: that comes as an event, or is asked for with Status.
type Stored struct {
	Sequence uint64 // in the stream; a refusal of this request shows it
}

// Publish hands a request to the broker and returns when it is stored there; the dispatcher need not be running. After an error
// other than a *wire.Refusal publish the same request again: repeats are answered from the record.
func (c *Client) Publish(ctx context.Context, channel string, r Request) (Stored, error) {
	msg, err := c.message(ctx, wire.RequestSubject, channel, r)
	if err != nil {
		return Stored{}, err
	}
	ctx, done := c.bound(ctx, msg.Subject)
	defer done()
	// No message id: the broker's duplicate window could take another caller's message for this one.
	ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(wire.RequestStream))
	if err != nil {
		return Stored{}, explain(ctx, msg.Subject, err)
	}
	if ack.Duplicate {
		return Stored{}, fmt.Errorf("%w on %q; publish it again", ErrNotProven, msg.Subject)
	}
	return Stored{Sequence: ack.Sequence}, nil
}

// Submit hands a request to a dispatcher and returns its verdict. An accepted or duplicate one (Verdict.Admitted) is on record for good;
// every other verdict is an answer, too, and no error. After an error submit the same request again.
func (c *Client) Submit(ctx context.Context, channel string, r Request) (Reply, error) {
	msg, err := c.message(ctx, wire.SubmitSubject, channel, r)
	if err != nil {
		return Reply{}, err
	}
	return ask(ctx, c, msg, wire.DecodeReply)
}

// Status asks what became of a request. ErrNotFound says that this caller has no such intent.
func (c *Client) Status(ctx context.Context, channel string, key dedup.Key, revision int32) (Status, error) {
	msg, err := c.question(wire.StatusSubject(c.caller), channel, key, revision)
	if err != nil {
		return Status{}, err
	}
	return ask(ctx, c, msg, wire.DecodeStatus)
}

// Cancel keeps a request from being sent, if it is not on its way yet. Cancelling twice is answered as the first time.
func (c *Client) Cancel(ctx context.Context, channel string, key dedup.Key, revision int32) (Cancelled, error) {
	msg, err := c.question(wire.CancelSubject(c.caller), channel, key, revision)
	if err != nil {
		return Cancelled{}, err
	}
	return ask(ctx, c, msg, wire.DecodeCancelled)
}

func (c *Client) message(ctx context.Context, subject func(caller, channel string) string, channel string, r Request) (*nats.Msg, error) {
	channel, err := dedup.ParseChannel(channel)
	if err != nil {
		return nil, refused(err)
	}
	payload, err := r.Encode()
	if err != nil {
		return nil, err
	}
	msg := &nats.Msg{Subject: subject(c.caller, channel), Data: payload, Header: nats.Header{}}
	if c.inject != nil {
		c.inject(ctx, wire.Carrier(msg.Header))
	}
	return msg, nil
}

// question checks as the dispatcher will, so that a mistake costs no round trip.
func (c *Client) question(subject, channel string, key dedup.Key, revision int32) (*nats.Msg, error) {
	payload := wire.Ref{Channel: channel, Key: key, Revision: revision}.Encode()
	if _, err := wire.DecodeRef(payload); err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: subject, Data: payload}, nil
}

func ask[T any](ctx context.Context, c *Client, msg *nats.Msg, decode func([]byte) (T, error)) (T, error) {
	var none T
	ctx, done := c.bound(ctx, msg.Subject)
	defer done()
	answer, err := c.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return none, explain(ctx, msg.Subject, err)
	}
	v, err := decode(answer.Data)
	if err != nil {
		return none, understand(err)
	}
	return v, nil
}

// bound gives a call its deadline and its ear for permission errors.
func (c *Client) bound(ctx context.Context, subject string) (context.Context, func()) {
	stop := context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		ctx, stop = context.WithTimeout(ctx, Patience)
	}
	ctx, done := c.denials.watch(ctx, subject, false)
	return ctx, func() { done(); stop() }
}

// refused turns dedup's error into the one that every malformed request gives.
func refused(err error) error {
	var e *dedup.InputError
	if errors.As(err, &e) {
		return &wire.Refusal{Code: e.Code, Field: e.Field, Message: e.Message}
	}
	return err
}
