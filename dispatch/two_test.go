package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

func TestTwoDispatchersSendEachOfFiveThousandOnce(t *testing.T) {
	r := newRig(t)
	const requests = 5000
	hooks, mail := on(keyed), on(visible) // the providers are shared by both dispatchers
	one := r.dispatcher(hooks.as("hooks"), mail.as("mail"))
	two := r.start(r.config(r.open(r.dbURL), hooks.as("hooks"), mail.as("mail")))

	published := r.publishEachUpToThrice(requests)
	r.quiet()
	if n := r.count(`select count(*) from intents where state = 'succeeded' and attempts = 1`); n != requests {
		t.Errorf("%d succeeded at their first attempt, want %d", n, requests)
	}
	for _, c := range []*scripted{hooks, mail} {
		effects := c.effects()
		if len(effects) != requests/2 {
			t.Errorf("%d effects, want %d", len(effects), requests/2)
		}
		for key, n := range effects {
			if n != 1 {
				t.Errorf("effect %s was sent %d times", key, n)
			}
		}
	}
	answered := func(verdict string) int {
		return int(one.metric(t, "requests_total", verdict) + two.metric(t, "requests_total", verdict))
	}
	if a, d := answered("accepted"), answered("duplicate"); a != requests || a+d < published {
		t.Errorf("accepted %d, duplicate %d of %d published; want %d accepted and the rest duplicates", a, d, published, requests)
	}
	if one.metric(t, "requests_total") == 0 || two.metric(t, "requests_total") == 0 {
		t.Error("one of the two did nothing")
	}
	for _, table := range []string{"agenda", "claim_batches"} {
		r.until(table+" empty", func() bool { return r.count(`select count(*) from `+table) == 0 })
	}
	r.until("every event on the broker", func() bool { return r.count(`select count(*) from outbox`) == 0 })
	if n := r.events(); n != requests {
		t.Errorf("%d events, want %d", n, requests)
	}
}

// events counts what is in the event stream.
func (r *rig) events() int {
	r.t.Helper()
	s, err := r.js.Stream(bg, wire.EventStream)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// publishEachUpToThrice publishes every order one to three times, from three connections at once, each in its own order.
func (r *rig) publishEachUpToThrice(requests int) (published int) {
	r.t.Helper()
	var mu sync.Mutex
	var producers sync.WaitGroup
	for p := range 3 {
		js, err := jetstream.New(r.connect(), jetstream.WithPublishAsyncMaxPending(512))
		if err != nil {
			r.t.Fatal(err)
		}
		producers.Go(func() {
			order := rand.Perm(requests)
			for _, n := range order {
				if p > 0 && n%3 < p { // each is published one to three times
					continue
				}
				channel := []string{"hooks", "mail"}[n%2]
				if _, err := js.PublishAsync(wire.RequestSubject("shop", channel), ask(fmt.Sprintf("order:%d", n)).bytes(), jetstream.WithStallWait(patience)); err != nil {
					r.t.Error(err)
					return
				}
				mu.Lock()
				published++
				mu.Unlock()
			}
			<-js.PublishAsyncComplete()
		})
	}
	producers.Wait()
	return published
}
