package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/migrations/pgtest"
)

// childMark makes a process of this test binary an onebell: its value is the command line.
const childMark = "TEST_BINARY_IS_ONEBELL"

// onebellIfChild is the first thing that TestMain does.
func onebellIfChild() {
	if line := os.Getenv(childMark); line != "" {
		os.Args = append([]string{"onebell"}, strings.Fields(line)...)
		main()
	}
}

// town is a broker, a database, peers and a producer, for dispatchers that are processes of their own.
type town struct {
	t           *testing.T
	broker      string
	databaseURL string
	mail        *mailPeer
	keyed       *hookPeer // drops repeats of a key
	plain       *hookPeer
	push        *pushPeer // shows a repeat in the place of what it repeats
	producer    *client.Client
	channels    []string      // all of them
	timeout     time.Duration // of an attempt: as it stands, longer than a slow machine takes for anything
}

func newTown(t *testing.T) *town {
	t.Helper()
	return newTownOn(t, natstest.Start(t).URL(), pgtest.New(t))
}

func newTownOn(t *testing.T, broker, databaseURL string) *town {
	t.Helper()
	w := &town{
		t: t, broker: broker, databaseURL: databaseURL, timeout: 2 * time.Minute, channels: []string{"mail", "keyed", "plain", "push"},
		mail: newMailPeer(t), keyed: newHookPeer(t), plain: newHookPeer(t), push: newPushPeer(t),
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if w.producer, err = client.Connect(ctx, client.Options{URL: w.broker, Caller: "shop"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.producer.Close)
	return w
}

// lapse ends every lease that stands, for a dispatcher that is dead: one that lives would know better.
func (w *town) lapse() {
	w.t.Helper()
	for _, sql := range []string{
		`update intents set lease_until = now() - interval '1 s' where state = 'sending' returning id::text`,
		`update agenda set at = now() - interval '1 s' where kind = 'leased' returning intent_id::text`,
		`update claim_batches set lease_until = now() - interval '1 s' returning id::text`,
	} {
		query[string](w, sql)
	}
}

// env is what a dispatcher of this town is configured with that knows these channels; without any it knows all.
func (w *town) env(known ...string) []string {
	if len(known) == 0 {
		known = w.channels
	}
	private := "ALLOW_PRIVATE=127.0.0.0/8"
	vars := map[string][]string{
		"mail":  {"smtp", "ADDR=" + w.mail.addr(), "FROM=shop@example.org", "TLS=none"},
		"keyed": {"webhook", private, "DEDUP=idempotency-key", "KEY_WINDOW=1h"},
		"plain": {"webhook", private},
		"push":  {"fcm", "ENDPOINT=" + w.push.url, "CREDENTIALS_FILE=" + w.push.credentials},
	}
	var named, env []string
	for _, channel := range known {
		named = append(named, channel+":"+vars[channel][0])
		for _, setting := range append(vars[channel][1:], "TIMEOUT="+w.timeout.String()) {
			env = append(env, "ONEBELL_CHANNEL_"+strings.ToUpper(channel)+"_"+setting)
		}
	}
	return append(env, "ONEBELL_CHANNELS="+strings.Join(named, ","),
		"ONEBELL_NATS_URL="+w.broker, "ONEBELL_DATABASE_URL="+w.databaseURL, "ONEBELL_SECRET=0123456789abcdef0123456789abcdef",
		"ONEBELL_ADMIN_ADDR=127.0.0.1:0", "ONEBELL_LOG_LEVEL=info")
}

// dispatcher is an onebell process.
type dispatcher struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *lockedText
	done chan struct{}
}

// serve starts a dispatcher that knows every channel, and waits until it serves.
func (w *town) serve() *dispatcher {
	w.t.Helper()
	return w.serveAs(w.env())
}

func (w *town) serveAs(env []string) *dispatcher {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	d := w.start(exec.Command(self), append(env, childMark+"=serve"))
	eventually(w.t, "the dispatcher serves", func() bool {
		select {
		case <-d.done:
			w.t.Fatalf("the dispatcher ended:\n%s", d.log)
		default:
		}
		return strings.Contains(d.log.String(), "onebell serves")
	})
	return d
}

// start starts a command as a dispatcher that ends with the test.
func (w *town) start(cmd *exec.Cmd, env []string) *dispatcher {
	w.t.Helper()
	d := &dispatcher{t: w.t, cmd: cmd, log: &lockedText{}, done: make(chan struct{})}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(d.done) }()
	w.t.Cleanup(func() {
		d.signal(syscall.SIGCONT)
		d.kill()
		if w.t.Failed() {
			w.t.Logf("dispatcher %d said:\n%s", cmd.Process.Pid, d.log)
		}
	})
	return d
}

func (d *dispatcher) signal(s syscall.Signal) { _ = d.cmd.Process.Signal(s) }

// kill ends the process without a chance to clean up, and waits until it is gone.
func (d *dispatcher) kill() {
	d.signal(syscall.SIGKILL)
	<-d.done
}

// lockedText is a buffer that a process writes and a test reads.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// patience is longer than a slow machine takes for anything that is waited for.
const patience = 4 * time.Minute

// eventually polls until yes, and fails the test when that does not come.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

// request is a request that fits the channel.
func (w *town) request(channel, key string) client.Request {
	r := client.Request{
		OccurredAt: time.Now().Truncate(time.Microsecond), Recipient: "ada@example.org",
		Content: []byte(`{"subject":"Your receipt","text":"Thank you for order ` + key + `."}`),
	}
	switch channel {
	case "keyed", "plain":
		r.Content = []byte(`{"type":"order.paid","data":{"order":"` + key + `"}}`)
		r.Recipient = map[string]*hookPeer{"keyed": w.keyed, "plain": w.plain}[channel].url
	case "push":
		r.Content = []byte(`{"title":"Order ` + key + ` is paid","body":"Thank you."}`)
		r.Recipient = "device-0001:APA91b"
	}
	k, err := client.Key("order", key)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Key = k
	return r
}

func (w *town) publish(channel, key string) {
	w.t.Helper()
	w.tell(channel, w.request(channel, key))
}

func (w *town) tell(channel string, r client.Request) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if _, err := w.producer.Publish(ctx, channel, r); err != nil {
		w.t.Fatal(err)
	}
}

// status asks as a producer does. A dispatcher that is stopped may be the one that is asked: then nobody answers.
func (w *town) status(channel, key string) (client.Status, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
	defer cancel()
	return w.producer.Status(ctx, channel, w.request(channel, key).Key, 0)
}

// becomes waits until the intent has the state, and fails when it passes through a state that is final and another.
func (w *town) becomes(channel, key string, want intents.State) client.Status {
	w.t.Helper()
	var last client.Status
	eventually(w.t, fmt.Sprintf("%s %s becomes %s", channel, key, want), func() bool {
		s, err := w.status(channel, key)
		if errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrNoAnswer) || errors.Is(err, client.ErrNoDispatcher) || errors.Is(err, client.ErrUnavailable) {
			return false
		}
		if err != nil {
			w.t.Fatal(err)
		}
		last = s
		if have := intents.State(s.State); have != want && (have.Terminal() || have == intents.UnknownState) {
			w.t.Fatalf("%s %s became %s (%s), want %s", channel, key, s.State, s.Code, want)
		}
		return intents.State(s.State) == want
	})
	return last
}

// query reads rows of one column, on a connection of its own: the server may have been restarted since the last one.
func query[T any](w *town, sql string, args ...any) []T {
	w.t.Helper()
	ctx := context.Background()
	db, err := pgx.Connect(ctx, w.databaseURL)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	rows, _ := db.Query(ctx, sql, args...)
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// count runs a query for one number.
func (w *town) count(sql string, args ...any) int {
	w.t.Helper()
	return query[int](w, sql, args...)[0]
}

// attempts returns the attempts on record for the intent of a channel, oldest first, as "generation result".
func (w *town) attempts(channel string) []string {
	w.t.Helper()
	return query[string](w, `select format('%s %s', a.generation, a.result) from attempts a
		join intents i on i.id = a.intent_id where i.channel = $1 order by a.generation`, channel)
}
