package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

// RequestConsumerName is the one durable consumer of the request stream.
const RequestConsumerName = "onebell"

// MaxRequestBytes is the size of a request that the stream takes; larger ones are refused by the broker alone, without harm to
// their neighbours.
const MaxRequestBytes = 1 << 20

// RequestStream returns the settings of the intake stream. Limits on its size are the operator's to choose, and so are the replicas of one
// that exists.
//
// Schedules, roll-up and message TTLs stay off: with them one producer could publish for another, or wipe the stream. The
// duplicate window is at its minimum because the intent table is the dedup: a window would let one caller hide another's message.
func RequestStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: wire.RequestStream, Subjects: []string{wire.RequestSubjects},
		Description: "requests that are not admitted yet", Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardNew, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: MaxRequestBytes,
		Duplicates: 100 * time.Millisecond, DenyDelete: true, DenyPurge: true,
	}
}

// EventStream returns the settings of the stream of outcome events.
func EventStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: wire.EventStream, Subjects: []string{wire.EventSubjects},
		Description: "outcomes of requests", Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardOld, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxAge: 7 * 24 * time.Hour,
		Duplicates: 2 * time.Minute, DenyDelete: true,
	}
}

// RequestConsumer returns the settings of the one durable consumer. Deliveries are unlimited and delays are given with each Nak:
// a BackOff list would replace AckWait and not apply to a Nak.
func RequestConsumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: RequestConsumerName, FilterSubject: wire.RequestSubjects, DeliverPolicy: jetstream.DeliverAllPolicy,
		ReplayPolicy: jetstream.ReplayInstantPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
		MaxDeliver: -1, MaxAckPending: 10000, MaxWaiting: 512,
	}
}

// Difference is one setting on the broker that is not as the dispatcher needs it.
type Difference struct {
	Object     string // the stream, or stream and consumer
	Setting    string
	Have, Want string
	Fix        string // what to do, as a sentence
}

func (d Difference) String() string {
	if d.Setting == "" {
		return fmt.Sprintf("%s is missing; %s", d.Object, d.Fix)
	}
	return fmt.Sprintf("%s: %s is %s, needs %s; %s", d.Object, d.Setting, d.Have, d.Want, d.Fix)
}

// SettingsError lists everything on the broker that is not as it must be.
type SettingsError struct{ Differences []Difference }

func (e *SettingsError) Error() string {
	lines := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		lines[i] = d.String()
	}
	return "the broker's settings do not fit: " + strings.Join(lines, " · ")
}

// EnsureStreams creates both streams and the consumer where they are missing (if create allows it), reads back what is there, and
// returns a *SettingsError that lists every difference. It changes nothing that exists. Any number of dispatchers may call it at once.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, create bool) error {
	differences, err := compareStreams(ctx, js, create)
	if err == nil && len(differences) > 0 {
		return &SettingsError{differences}
	}
	return err
}

// CompareStreams returns every difference between the broker and what the dispatcher needs, missing objects among them. It changes nothing.
func CompareStreams(ctx context.Context, js jetstream.JetStream) ([]Difference, error) {
	return compareStreams(ctx, js, false)
}

func compareStreams(ctx context.Context, js jetstream.JetStream, create bool) ([]Difference, error) {
	var out []Difference
	for _, want := range []jetstream.StreamConfig{RequestStream(), EventStream()} {
		have, err := streamSettings(ctx, js, want, create)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			out = append(out, Difference{Object: "stream " + want.Name, Fix: "create it from the shipped settings (deploy/) or allow the dispatcher to create streams"})
		case err != nil:
			return nil, fmt.Errorf("reading stream %s: %w", want.Name, err)
		default:
			out = append(out, differ("stream "+want.Name, streamRules(have, want))...)
		}
	}
	want := RequestConsumer()
	object := "consumer " + wire.RequestStream + "/" + want.Durable
	have, err := consumerSettings(ctx, js, want, create)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		out = append(out, Difference{Object: object, Fix: "create it from the shipped settings (deploy/) or allow the dispatcher to create it"})
	case errors.Is(err, jetstream.ErrStreamNotFound): // reported above
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", object, err)
	default:
		out = append(out, differ(object, consumerRules(have, want))...)
	}
	return out, nil
}

func streamSettings(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, create bool) (jetstream.StreamConfig, error) {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && create {
		stream, err = createStream(ctx, js, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another dispatcher was quicker
			stream, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return stream.CachedInfo().Config, nil
}

// replicas is how many servers of a cluster keep a stream that a dispatcher creates: one of them may be lost.
const replicas = 3

// createStream creates a stream; where the broker is a cluster, with replicas. One copy in a cluster would be a choice that nobody made:
// where there are too few servers the error says so, and the operator creates the stream.
func createStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	if js.Conn().ConnectedClusterName() != "" {
		want.Replicas = replicas
	}
	stream, err := js.CreateStream(ctx, want)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == codeNoPeers {
		return nil, fmt.Errorf("the cluster has no %d servers with JetStream; start them, or create stream %s with the replicas that you want: %w", replicas, want.Name, err)
	}
	return stream, err
}

// codeNoPeers is the broker's "no suitable peers for placement".
const codeNoPeers jetstream.ErrorCode = 10005

func consumerSettings(ctx context.Context, js jetstream.JetStream, want jetstream.ConsumerConfig, create bool) (jetstream.ConsumerConfig, error) {
	consumer, err := js.Consumer(ctx, wire.RequestStream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && create {
		consumer, err = js.CreateConsumer(ctx, wire.RequestStream, want)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			consumer, err = js.Consumer(ctx, wire.RequestStream, want.Durable)
		}
	}
	if err != nil {
		return jetstream.ConsumerConfig{}, err
	}
	return consumer.CachedInfo().Config, nil
}
