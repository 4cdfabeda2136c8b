package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

func TestMain(m *testing.M) {
	natstest.ServeIfChild()
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // these tests wait more than they work
		panic(err)
	}
	os.Exit(pgtest.Main(m))
}

const patience = 2 * time.Minute // longer than the broker's AckWait

// rig is a database, a broker and a producer's connection for one test.
type rig struct {
	t     *testing.T
	dbURL string
	db    *pgxpool.Pool // to look from outside
	store *pgstore.Store
	url   string // of the broker
	nc    *nats.Conn
	js    jetstream.JetStream
	logs  *logBuffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return newRigOn(t, natstest.Start(t).URL(), pgtest.New(t))
}

func newRigOn(t *testing.T, brokerURL, dbURL string) *rig {
	t.Helper()
	r := &rig{t: t, dbURL: dbURL, url: brokerURL, logs: &logBuffer{}}
	var err error
	if r.db, err = pgxpool.New(context.Background(), dbURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.db.Close)
	r.store = r.open(dbURL)
	r.nc = r.connect()
	if r.js, err = jetstream.New(r.nc, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the dispatchers' log:\n" + r.logs.String())
		}
	})
	return r
}

func (r *rig) open(url string) *pgstore.Store {
	r.t.Helper()
	s, err := pgstore.Open(context.Background(), url, pgstore.Options{MaxConns: 4})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return s
}

func (r *rig) connect() *nats.Conn {
	r.t.Helper()
	nc, err := nats.Connect(r.url, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(nc.Close)
	return nc
}

// running is a dispatcher with what it was given.
type running struct {
	*dispatch.Dispatcher
	rig      *rig
	registry *prometheus.Registry
	looks    *rounds
	drained  bool
}

func (r *rig) config(store dispatch.Store, entries ...channels.Entry) dispatch.Config {
	r.t.Helper()
	registry, err := channels.NewRegistry(entries...)
	if err != nil {
		r.t.Fatal(err)
	}
	deriver, err := dedup.NewDeriver([]byte("a secret for tests, 32 bytes long"))
	if err != nil {
		r.t.Fatal(err)
	}
	return dispatch.Config{
		Owner: "test", Intake: true, Dispatch: true, Horizon: 72 * time.Hour, Deriver: deriver, Registry: registry,
		Store: &rounds{Store: store}, NATS: r.connect(), CreateStreams: true, Metrics: prometheus.NewRegistry(), Grace: time.Minute,
		Log: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// dispatcher starts a dispatcher with the channels; it is drained at the end of the test.
func (r *rig) dispatcher(entries ...channels.Entry) *running {
	r.t.Helper()
	return r.start(r.config(r.store, entries...))
}

func (r *rig) start(cfg dispatch.Config) *running {
	r.t.Helper()
	d, err := dispatch.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := d.Start(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	run := &running{Dispatcher: d, rig: r, registry: cfg.Metrics.(*prometheus.Registry), looks: cfg.Store.(*rounds)}
	r.t.Cleanup(func() {
		if !run.drained {
			r.drain(run)
		}
	})
	return run
}

func (r *rig) drain(d *running) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d.drained = true
	if err := d.Drain(ctx); err != nil {
		r.t.Errorf("drain: %v", err)
	}
}

// crash leaves at once: nothing is handed back, nothing is settled.
func (r *rig) crash(d *running) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.drained = true
	_ = d.Drain(ctx)
}

// request is a payload; its members can be changed before it is sent.
type request map[string]any

var started = time.Now()

func ask(key string) request {
	return request{
		"key": key, "occurred_at": started.UTC().Format(time.RFC3339Nano), "recipient": "ada@example.org",
		"content": map[string]any{"text": "your receipt"},
	}
}

func (q request) with(name string, value any) request {
	out := request{}
	for k, v := range q {
		out[k] = v
	}
	out[name] = value
	return out
}

func (q request) bytes() []byte {
	b, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return b
}

// publish puts a request on the stream; like every producer it tries again until it is told that it is there.
func (r *rig) publish(subject string, payload []byte, opts ...jetstream.PublishOpt) {
	r.t.Helper()
	r.until("the broker's acknowledgement", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience/4)
		defer cancel()
		_, err := r.js.Publish(ctx, subject, payload, opts...)
		return err == nil
	})
}

// publishAnew publishes under a message id until the broker takes it for a new message: its window for duplicates has passed.
func (r *rig) publishAnew(subject string, payload []byte, id string) {
	r.t.Helper()
	r.until("the broker to forget the message id", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience/4)
		defer cancel()
		ack, err := r.js.Publish(ctx, subject, payload, jetstream.WithMsgID(id))
		return err == nil && !ack.Duplicate
	})
}

// submit asks for a verdict.
func (r *rig) submit(caller, channel string, q request) wire.Reply {
	r.t.Helper()
	return answered(r, wire.SubmitSubject(caller, channel), q.bytes(), wire.DecodeReply)
}

// answered asks until the answer is another than that the service cannot answer in time: on a busy machine that one is to be expected.
func answered[T any](r *rig, subject string, payload []byte, decode func([]byte) (T, error)) T {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		msg, err := r.nc.Request(subject, payload, patience)
		if err != nil {
			r.t.Fatal(err)
		}
		answer, err := decode(msg.Data)
		var late *wire.Refusal
		if errors.As(err, &late) && late.Code == wire.CodeUnavailable && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		return answer
	}
}

// until waits for a condition.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

func identity(caller, channel, key string) dedup.Identity {
	return dedup.Identity{Caller: caller, Channel: channel, Key: dedup.Key(key)}
}

func (r *rig) find(id dedup.Identity) (intents.Intent, bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, found, err := r.store.FindByIdentity(ctx, id)
	if err != nil {
		return intents.Intent{}, false
	}
	return i, found
}

// reaches waits until the intent is in the state, and returns it.
func (r *rig) reaches(id dedup.Identity, want intents.State) intents.Intent {
	r.t.Helper()
	var i intents.Intent
	deadline := time.Now().Add(patience)
	for {
		var found bool
		if i, found = r.find(id); found && i.State == want {
			return i
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s is %q (%s), want %q", id.Key, i.State, i.Code, want)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// count asks the database for one number.
func (r *rig) count(sql string, args ...any) (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// pending is what the broker still holds of the requests.
func (r *rig) pending() int {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.js.Stream(ctx, wire.RequestStream)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// quiet waits until the broker holds no request and the database nothing open.
func (r *rig) quiet() {
	r.t.Helper()
	r.until("nothing pending on the broker", func() bool { return r.pending() == 0 })
	r.until("nothing open in the database", func() bool {
		return r.count(`select count(*) from intents where state in ('pending', 'sending')`) == 0
	})
}

// refusals returns the codes of all stored refusals with how many there are of each.
func (r *rig) refusals() map[string]int {
	r.t.Helper()
	list, err := r.store.ListRefusals(context.Background(), intents.RefusalFilter{Limit: 500})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range list {
		out[f.Code]++
	}
	return out
}

type ctx = context.Context

var bg = context.Background()

// cancel asks for a cancellation.
func (r *rig) cancel(caller, channel, key string) wire.Cancelled {
	r.t.Helper()
	return answered(r, wire.CancelSubject(caller), wire.Ref{Channel: channel, Key: dedup.Key(key)}.Encode(), wire.DecodeCancelled)
}

// wipe loses the request stream with everything in it.
func (r *rig) wipe() {
	r.t.Helper()
	if err := r.js.DeleteStream(bg, wire.RequestStream); err != nil {
		r.t.Fatal(err)
	}
	r.until("the stream there again", func() bool {
		_, err := r.js.Consumer(bg, wire.RequestStream, dispatch.RequestConsumerName)
		return err == nil
	})
}

// muchLater is after every not_before of these tests: a request that could never be sent is refused.
func muchLater() string { return time.Now().Add(2 * time.Hour).Format(time.RFC3339) }

// expire lets the time of everything pass that has one.
func (r *rig) expire() {
	r.t.Helper()
	for _, table := range []string{"agenda", "intents"} {
		if _, err := r.db.Exec(bg, `update `+table+` set expires_at = now() where expires_at is not null`); err != nil {
			r.t.Fatal(err)
		}
	}
}
