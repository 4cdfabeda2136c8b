package main

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// The SIGKILL matrix: a dispatcher is killed while a mail, a keyed and an unkeyed webhook are all at one step of their effect.
// Another dispatcher takes over. What must hold then is the contract table's row "lease over, no settlement".
//
//	killed …                                    mail                  keyed webhook             unkeyed webhook
//	before the exchange                         UNKNOWN, 0 effects    SUCCEEDED, 1 effect       UNKNOWN, 0 effects
//	after the effect, before its reply          UNKNOWN, 1 effect     SUCCEEDED, 1 of 2 calls   UNKNOWN, 1 effect
//	after the reply, before the settlement      UNKNOWN, 1 effect     SUCCEEDED, 1 of 2 calls   UNKNOWN, 1 effect
func TestKillBeforeTheExchange(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.killAt(stageConnected, nil)
	w.mustHoldAfterKill(killed{mails: 0, keyedCalls: 1, plainCalls: 0})
}

func TestKillAfterTheEffectBeforeItsReply(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.killAt(stageTaken, nil)
	w.mustHoldAfterKill(killed{mails: 1, keyedCalls: 2, plainCalls: 1})
}

func TestKillAfterTheReplyBeforeTheSettlement(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	release := w.holdSettlements()
	w.killAt(stageReplied, func() {
		eventually(t, "a settlement waits", func() bool {
			return w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
		})
	})
	release()
	w.mustHoldAfterKill(killed{mails: 1, keyedCalls: 2, plainCalls: 1})
}

// killAt publishes one request for each channel and kills the dispatcher when all three peers are at the stage.
func (w *town) killAt(at stage, then func()) {
	w.t.Helper()
	d := w.serve()
	gone := make(chan struct{})
	var arrived sync.WaitGroup
	for _, p := range []*books{&w.mail.books, &w.keyed.books, &w.plain.books} {
		arrived.Add(1)
		once := sync.OnceFunc(arrived.Done)
		p.setHook(func(s stage) bool {
			if s != at {
				return true
			}
			once()
			<-gone
			return false
		})
	}
	for _, channel := range []string{"mail", "keyed", "plain"} {
		w.publish(channel, "8841")
	}
	arrived.Wait()
	if then != nil {
		then()
	}
	d.kill()
	for _, p := range []*books{&w.mail.books, &w.keyed.books, &w.plain.books} {
		p.setHook(nil)
	}
	close(gone)
}

// holdSettlements keeps every settlement waiting in the database, until release: then what waited is gone, not done.
func (w *town) holdSettlements() (release func()) {
	w.t.Helper()
	ctx := context.Background()
	holder, err := pgx.Connect(ctx, w.databaseURL)
	if err != nil {
		w.t.Fatal(err)
	}
	tx, err := holder.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `lock table attempts in exclusive mode`); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		// The server does not notice that a client which waits for a lock has died: end its backends before the lock.
		eventually(w.t, "the dead dispatcher's backends are gone", func() bool {
			return w.count(`select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 0
		})
		if err := tx.Rollback(ctx); err != nil {
			w.t.Error(err)
		}
		_ = holder.Close(ctx)
	}
}

type killed struct{ mails, keyedCalls, plainCalls int }

func (w *town) mustHoldAfterKill(want killed) {
	t := w.t
	t.Helper()
	w.lapse()
	w.serve()
	w.becomes("keyed", "8841", intents.Succeeded)
	w.becomes("mail", "8841", intents.UnknownState)
	w.becomes("plain", "8841", intents.UnknownState)

	if got := len(w.mail.all()); got != want.mails {
		t.Errorf("the mail server took %d mails, want %d", got, want.mails)
	}
	if got := len(w.plain.all()); got != want.plainCalls {
		t.Errorf("the unkeyed receiver was called %d times, want %d", got, want.plainCalls)
	}
	calls := w.keyed.all()
	if len(calls) != want.keyedCalls || w.keyed.applied() != 1 {
		t.Errorf("the keyed receiver was called %d times and applied %d, want %d and 1", len(calls), w.keyed.applied(), want.keyedCalls)
	}
	for _, c := range calls {
		if c != calls[0] || c.key == "" {
			t.Errorf("a resend differs: key %q, body %q; the first had %q, %q", c.key, c.body, calls[0].key, calls[0].body)
		}
	}
	for channel, attempts := range map[string][]string{
		"mail": {"1 unknown"}, "plain": {"1 unknown"}, "keyed": {"1 unknown", "3 accepted"}, // generation 2 is the takeover
	} {
		if got := w.attempts(channel); !slices.Equal(got, attempts) {
			t.Errorf("%s has the attempts %q on record, want %q", channel, got, attempts)
		}
	}
	w.holds()
}
