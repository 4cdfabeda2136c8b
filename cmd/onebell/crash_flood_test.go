package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

// Two dispatchers on one database and one broker: 5,000 facts, each told one to three times from several connections, by both ways
// of asking. The mail server takes each once, every repeat is answered as one, and nothing is left open.
func TestFiveThousandFactsToldUpToThreeTimes(t *testing.T) {
	t.Parallel()
	const facts, connections = 5000, 4
	w := newTown(t)
	w.serve()
	w.serve()

	told := make([]int, 0, 2*facts)
	for i := range facts {
		for range 1 + i%3 {
			told = append(told, i)
		}
	}
	rand.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
	requests := make([]client.Request, facts)
	for i := range requests {
		requests[i] = w.request("mail", fmt.Sprint(i))
	}

	var mu sync.Mutex
	verdicts, submitted := map[wire.Verdict]int{}, 0
	var all sync.WaitGroup
	for c := range connections {
		producer, err := client.Connect(t.Context(), client.Options{URL: w.broker, Caller: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(producer.Close)
		for worker := range 4 {
			all.Go(func() {
				for n := c*4 + worker; n < len(told); n += 4 * connections {
					var err error
					if n%2 == 0 {
						err = again(func() error { _, err := producer.Publish(t.Context(), "mail", requests[told[n]]); return err })
					} else {
						var reply client.Reply
						err = again(func() (err error) { reply, err = producer.Submit(t.Context(), "mail", requests[told[n]]); return err })
						mu.Lock()
						verdicts[reply.Verdict]++
						submitted++
						mu.Unlock()
					}
					if err != nil {
						t.Errorf("telling fact %d: %v", told[n], err)
					}
				}
			})
		}
	}
	all.Wait()
	eventually(t, "every fact is settled", func() bool {
		return w.count(`select count(*) from intents where state = 'succeeded'`) == facts
	})
	if got, different := len(w.mail.all()), w.mail.applied(); got != facts || different != facts {
		t.Errorf("the mail server took %d mails, %d of them different; want %d", got, different, facts)
	}
	if verdicts[wire.Accepted]+verdicts[wire.Duplicate] != submitted || verdicts[wire.Duplicate] == 0 {
		t.Errorf("of %d requests submitted the verdicts were %v; want nothing but accepted and duplicate", submitted, verdicts)
	}
	for what, sql := range map[string]string{
		"intents":                `select count(*) - 5000 from intents`,
		"refusals":               `select count(*) from refusals`,
		"open intents":           `select count(*) from agenda`,
		"batches under way":      `select count(*) from claim_batches`,
		"attempts beyond one":    `select count(*) - 5000 from attempts`,
		"possible duplicates":    `select coalesce(sum(possible_duplicates), 0)::bigint from intents`,
		"attempts not accepted":  `select count(*) from attempts where result <> 'accepted'`,
		"intents without a mail": `select count(*) from intents i where not exists (select from attempts a where a.intent_id = i.id)`,
	} {
		if got := w.count(sql); got != 0 {
			t.Errorf("%s: %d, want 0", what, got)
		}
	}
	w.holds()
}

// again does what the SDK's errors say: on a busy machine the broker or the database may be late.
func again(ask func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := ask()
		if !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrNoAnswer) || time.Now().After(deadline) {
			return err
		}
	}
}
