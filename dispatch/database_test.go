package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/migrations/pgtest"
)

// behind starts a dispatcher whose way to the database is a wire that can be cut.
func behind(t *testing.T, entries ...channels.Entry) (*rig, *pgtest.Wire, *running) {
	t.Helper()
	t.Parallel()
	url := pgtest.New(t)
	w := pgtest.Proxy(t, url)
	r := newRigOn(t, natstest.Start(t).URL(), url)
	return r, w, r.start(r.config(r.open(w.URL()), entries...))
}

func TestLostCommitIsRecognised(t *testing.T) {
	for _, step := range []string{"admit:", "claim:", "settle:"} {
		for _, fault := range []pgtest.Fault{pgtest.LoseReply, pgtest.LoseRequest} {
			for name, contract := range map[string]channels.Contract{"hooks": keyed, "mail": visible} {
				if step == "claim:" && name == "hooks" {
					continue // claimed at admission
				}
				t.Run(fmt.Sprint(step, fault, name), func(t *testing.T) {
					c := on(contract)
					r, w, d := behind(t, c.as(name))
					hit := w.Arm(fault, "-- "+step)
					r.publish(wire.RequestSubject("shop", name), ask("note:1").bytes())
					hit.Wait(t)
					i := r.reaches(identity("shop", name, "note:1"), intents.Succeeded)
					r.quiet()
					if i.Attempts != 1 || i.Generation != 1 || c.count() != 1 {
						t.Errorf("%d attempts in generation %d, %d sends; want 1 of each", i.Attempts, i.Generation, c.count())
					}
					if step == "admit:" && d.metric(t, "requests_total", "accepted") != 1 {
						t.Error("the own commit was not recognised as an acceptance")
					}
				})
			}
		}
	}
}

func TestO2TerminatedConnectionsInTheMiddleOfSends(t *testing.T) {
	gate := newGateway()
	c := on(visible)
	c.send = gate.hold(accepted)
	r, _, _ := behind(t, c.as("mail"))
	for n := range 20 {
		r.publish(wire.RequestSubject("shop", "mail"), ask(fmt.Sprintf("mail:%d", n)).bytes())
	}
	for range 8 {
		<-gate.begun
	}
	r.terminate()
	close(gate.open)
	r.terminate()
	r.quiet()
	if n := r.count(`select count(*) from intents where state = 'succeeded' and attempts = 1`); n != 20 || c.count() != 20 {
		t.Errorf("%d succeeded, %d sends; want 20 and 20", n, c.count())
	}
}

// terminate ends every other session of the database.
func (r *rig) terminate() {
	r.t.Helper()
	if _, err := r.db.Exec(bg, `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`); err != nil {
		r.t.Fatal(err)
	}
}

func TestO2ReadOnlyServerIsLeftAndNobodyIsRejected(t *testing.T) {
	gate := newGateway()
	c := on(visible)
	c.send = gate.hold(accepted)
	r, _, d := behind(t, c.as("mail"))
	r.publish(wire.RequestSubject("shop", "mail"), ask("mail:1").bytes())
	<-gate.begun
	setReadOnly(t, r, "on")
	close(gate.open) // its settlement meets a server that takes no writes
	r.publish(wire.RequestSubject("shop", "mail"), ask("mail:2").bytes())
	r.until("readiness to tell", func() bool { return len(d.Ready()) > 0 })
	r.until("settling to have failed again and again", func() bool {
		return d.metric(t, "store_errors_total", "settle") >= 5
	})
	r.reaches(identity("shop", "mail", "mail:1"), intents.Sending) // still, while nothing could be written
	setReadOnly(t, r, "off")
	for _, key := range []string{"mail:1", "mail:2"} {
		if i := r.reaches(identity("shop", "mail", key), intents.Succeeded); i.Takeovers != 0 {
			t.Errorf("%s was taken over: what its sender knew was thrown away", key)
		}
	}
	if c.count() != 2 || len(r.refusals()) != 0 {
		t.Errorf("%d sends, refusals %v; want 2 and none", c.count(), r.refusals())
	}
}

// setReadOnly turns the database as a failover would: new sessions are read-only, old ones end.
func setReadOnly(t *testing.T, r *rig, mode string) {
	t.Helper()
	conn, err := pgx.Connect(bg, r.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(bg)
	name := pgx.Identifier{r.db.Config().ConnConfig.Database}.Sanitize()
	for _, sql := range []string{
		"set default_transaction_read_only = off",
		"alter database " + name + " set default_transaction_read_only = " + mode,
		`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
	} {
		if _, err := conn.Exec(bg, sql); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDatabaseAwayWhileManyAreOnTheWire(t *testing.T) {
	gate := newGateway()
	hooks, mail := on(keyed), on(visible)
	hooks.send, mail.send = gate.hold(accepted), gate.hold(accepted)
	r, w, _ := behind(t, hooks.as("hooks"), mail.as("mail"))
	for n := range 30 {
		r.publish(wire.RequestSubject("shop", "hooks"), ask(fmt.Sprintf("note:%d", n)).bytes())
		r.publish(wire.RequestSubject("shop", "mail"), ask(fmt.Sprintf("note:%d", n)).bytes())
	}
	for range 16 {
		<-gate.begun
	}
	w.Refuse(true)
	close(gate.open)
	time.Sleep(time.Second) // the outage
	w.Refuse(false)
	r.quiet()
	if n := r.count(`select count(*) from intents where state = 'succeeded' and attempts = 1`); n != 60 {
		t.Errorf("%d succeeded at their first attempt, want 60", n)
	}
	for _, c := range []*scripted{hooks, mail} {
		for key, n := range c.effects() {
			if n != 1 {
				t.Errorf("effect %s was sent %d times", key, n)
			}
		}
	}
}

// counting counts what an idle dispatcher asks.
type counting struct {
	dispatch.Store
	n atomic.Int64
}

func (c *counting) Clock(x ctx) (time.Time, error) { c.n.Add(1); return c.Store.Clock(x) }
func (c *counting) DueChannels(x ctx) ([]string, error) {
	c.n.Add(1)
	return c.Store.DueChannels(x)
}

func (c *counting) TakeOver(x ctx, channels []string, owner string, lease time.Duration, n int) ([]intents.Claim, error) {
	c.n.Add(2)
	return c.Store.TakeOver(x, channels, owner, lease, n)
}
func (c *counting) Sweep(x ctx, n int) (int, error) { c.n.Add(1); return c.Store.Sweep(x, n) }
func (c *counting) ChannelStates(x ctx) ([]intents.ChannelState, error) {
	c.n.Add(1)
	return c.Store.ChannelStates(x)
}

func (c *counting) OnDuty(x ctx, duty, owner string, lease time.Duration) (bool, error) {
	c.n.Add(1)
	return c.Store.OnDuty(x, duty, owner, lease)
}

func (c *counting) Events(x ctx, limit int) ([]intents.EventRow, error) {
	c.n.Add(1)
	return c.Store.Events(x, limit)
}

func (c *counting) Claim(x ctx, req intents.ClaimRequest) ([]intents.Claim, error) {
	c.n.Add(1)
	return c.Store.Claim(x, req)
}

func TestIdleDispatcherIsNearlySilent(t *testing.T) {
	r := newRig(t)
	c := &counting{Store: r.store}
	r.start(r.config(c, on(keyed).as("hooks"), on(visible).as("mail"), on(replaceable).as("push")))
	// It calms down. A slow machine asks less often, and reads its clock late.
	r.until("a while with at most 2 statements a second", func() bool {
		began := time.Now()
		c.n.Store(0)
		time.Sleep(6 * time.Second)
		n := c.n.Load()
		return n > 0 && n <= int64(2*time.Since(began)/time.Second)
	})
}

func TestStartWithoutADatabaseSaysWhatToDo(t *testing.T) {
	r := newRig(t)
	r.store.Close()
	d, err := dispatch.New(r.config(r.store, on(keyed).as("hooks")))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(bg); err == nil || !strings.Contains(err.Error(), "ONEBELL_DATABASE_URL") {
		t.Errorf("start: %v", err)
	}
}

// choosy refuses batches with one kind of settlement, as a database would that cannot store a value in it.
type choosy struct{ dispatch.Store }

func (c choosy) Settle(x ctx, batch []intents.Settlement, finished []uuid.UUID) ([]intents.Settled, error) {
	for _, s := range batch {
		if s.Outcome.Code() == "poison" {
			return nil, fmt.Errorf("settle: %w", intents.ErrUnstorable)
		}
	}
	return c.Store.Settle(x, batch, finished)
}

func TestSettlementThatCannotBeWrittenHoldsUpNobody(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	c := on(keyed)
	c.send = func(x ctx, a channels.Attempt) channels.Outcome {
		code := ""
		if strings.Contains(string(a.Rendered), "poison") {
			code = "poison"
		}
		return gate.hold(func() channels.Outcome { return channels.OutcomeAccepted("", code, "") })(x, a)
	}
	r.start(r.config(choosy{r.store}, c.as("hooks", func(s *channels.Settings) { s.Concurrency = 30 })))
	for n := range 30 {
		q := ask(fmt.Sprintf("note:%d", n))
		if n%10 == 5 {
			q = q.with("content", map[string]any{"text": "poison"})
		}
		r.submit("shop", "hooks", q)
	}
	for range 30 {
		<-gate.begun
	}
	close(gate.open)
	r.until("the good ones settled", func() bool { return r.count(`select count(*) from intents where state = 'succeeded'`) == 27 })
	if n := r.count(`select count(*) from intents i where state = 'sending' and not exists (select from agenda where intent_id = i.id)
		and not exists (select from claim_batches where i.id = any(intents))`); n != 0 {
		t.Errorf("nobody will look at %d of the others again", n)
	}
}

// mute does everything and says at first that it failed: "failed, but did happen", beyond what the store itself tries again.
type mute struct {
	dispatch.Store
	mu   sync.Mutex
	said map[string]bool
}

var errMute = errors.New("the reply was lost")

// lose returns an error the first time that the step is taken.
func (m *mute) lose(step string, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && !m.said[step] {
		m.said[step] = true
		return errMute
	}
	return err
}

func (m *mute) Admit(x ctx, b intents.AdmitBatch) ([]intents.Verdict, error) {
	v, err := m.Store.Admit(x, b)
	return v, m.lose(fmt.Sprint("admit", b.Admissions[0].Identity.Channel), err)
}

func (m *mute) Refuse(x ctx, list []intents.Refusal) error {
	return m.lose("refuse", m.Store.Refuse(x, list))
}

func (m *mute) Claim(x ctx, req intents.ClaimRequest) ([]intents.Claim, error) {
	claims, err := m.Store.Claim(x, req)
	if len(claims) > 0 {
		err = m.lose("claim", err)
	}
	return claims, err
}

func (m *mute) Settle(x ctx, batch []intents.Settlement, finished []uuid.UUID) ([]intents.Settled, error) {
	r, err := m.Store.Settle(x, batch, finished)
	if len(batch) > 0 {
		err = m.lose(fmt.Sprint("settle", batch[0].ID), err)
	}
	return r, err
}

func (m *mute) Forget(x ctx, rows []int64) error { return m.lose("forget", m.Store.Forget(x, rows)) }

func TestEveryReplyOfTheStoreIsLostOnce(t *testing.T) {
	r := newRig(t)
	hooks, mail := on(keyed), on(visible)
	d := r.start(r.config(&mute{Store: r.store, said: map[string]bool{}}, hooks.as("hooks"), mail.as("mail")))
	for _, channel := range []string{"hooks", "mail"} {
		if reply := r.submit("shop", channel, ask("note:1")); reply.Verdict != wire.Accepted {
			t.Errorf("%s: %+v, want the own commit recognised", channel, reply)
		}
	}
	r.publish(wire.RequestSubject("shop", "mail"), []byte("{"))
	r.quiet()
	for _, c := range []*scripted{hooks, mail} {
		if c.count() != 1 {
			t.Errorf("%d sends, want 1", c.count())
		}
	}
	if n := r.count(`select count(*) from intents where state = 'succeeded' and generation = 1 and attempts = 1`); n != 2 {
		t.Errorf("%d succeeded at their first attempt, want 2", n)
	}
	if n := r.refusals()["json_invalid"]; n != 1 || d.metric(t, "fenced_total") != 0 {
		t.Errorf("%d refusals, want 1; or a settlement of our own was taken for another's", n)
	}
	if events := r.heard(3); len(events) != 3 {
		t.Errorf("%d events, want 3", len(events))
	}
}

func TestL3LongOutageDelaysTheRedelivery(t *testing.T) {
	c := on(keyed)
	r, w, d := behind(t, c.as("hooks"))
	w.Refuse(true)
	r.publish(wire.RequestSubject("shop", "hooks"), ask("note:1").bytes())
	r.until("the request given back", func() bool { return d.metric(t, "naks_total") >= 1 })
	if n := r.pending(); n != 1 {
		t.Fatalf("%d requests on the broker, want the one that was given back", n)
	}
	w.Refuse(false)
	r.reaches(identity("shop", "hooks", "note:1"), intents.Succeeded)
	r.quiet()
}
