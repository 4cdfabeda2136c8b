package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/migrations/pgtest"
)

// The database crashes and the broker is restarted while mails and hooks flow: nothing is lost, nothing comes twice, and every
// intent says what happened.
func TestDatabaseCrashAndBrokerRestartInMidFlow(t *testing.T) {
	t.Parallel()
	const n = 200
	cluster, broker := pgtest.Cluster(t, pgtest.Durable()), natstest.Start(t, natstest.Durable())
	w := newTownOn(t, broker.URL(), cluster.URL())
	w.serve()
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range n {
			for _, channel := range []string{"mail", "keyed"} {
				key := fmt.Sprint(i)
				eventually(t, "the broker takes "+key, func() bool {
					_, err := w.producer.Publish(t.Context(), channel, w.request(channel, key))
					return err == nil
				})
			}
		}
	}()
	eventually(t, "mails flow", func() bool { return len(w.mail.all()) > n/10 })
	if err := cluster.Stop(local.Immediate); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := len(w.mail.all())
	eventually(t, "mails flow again", func() bool { return len(w.mail.all()) > took+n/10 || len(w.mail.all()) == n })
	broker.Restart(t)
	<-published
	eventually(t, "every intent is settled", func() bool {
		return w.count(`select count(*) from intents where state not in ('pending', 'sending')`) == 2*n
	})
	if got := query[string](w, `select format('%s %s %s', channel, state, code) from intents where state <> 'succeeded'`); len(got) > 0 {
		t.Errorf("not succeeded: %q", got)
	}
	if got, different := len(w.mail.all()), w.mail.applied(); got != n || different != n {
		t.Errorf("the mail server took %d mails, %d of them different; want %d", got, different, n)
	}
	if got := w.keyed.applied(); got != n {
		t.Errorf("the keyed receiver applied %d calls, want %d", got, n)
	}
	w.holds()
}

// A statement, or the reply to its COMMIT, is lost at admission, at the claim and at the settlement: the dispatcher recognises
// its own work, and one fact stays one effect.
func TestStatementOrReplyLost(t *testing.T) {
	t.Parallel()
	faults := map[string]pgtest.Fault{"request": pgtest.LoseRequest, "reply": pgtest.LoseReply}
	for _, step := range []string{"admit", "claim", "settle"} {
		for _, lost := range []string{"request", "reply"} {
			t.Run(step+" "+lost, func(t *testing.T) {
				w := newTown(t)
				wire := pgtest.Proxy(t, w.databaseURL)
				direct := w.databaseURL
				w.databaseURL = wire.URL()
				w.serve()
				w.databaseURL = direct
				hit := wire.Arm(faults[lost], "-- "+step+":")
				w.publish("mail", "1")
				w.publish("keyed", "1")
				hit.Wait(t)
				w.becomes("mail", "1", intents.Succeeded)
				w.becomes("keyed", "1", intents.Succeeded)
				if mails, calls := len(w.mail.all()), len(w.keyed.all()); mails != 1 || calls != 1 {
					t.Errorf("%d mails and %d calls, want 1 and 1", mails, calls)
				}
				for _, channel := range []string{"mail", "keyed"} {
					if got := w.attempts(channel); !slices.Equal(got, []string{"1 accepted"}) {
						t.Errorf("%s has the attempts %q on record, want one that was accepted", channel, got)
					}
				}
			})
		}
	}
}
