package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/migrations/pgtest"
)

// afterwards is a town whose database was backed up in mid-flow and restored when everything had been sent.
type afterwards struct {
	*town
	cluster *local.Postgres
	asked   map[string][]client.Request // by channel, in the order of the phases
}

// How many requests a channel gets before the backup, around it, and after it; and how many it sends at once.
const (
	settledBefore = 3
	openAtBackup  = 12
	lostInGap     = 5
	atOnce        = 4
)

// old sends everything once, and goes back to the backup: no dispatcher runs any more, and every receiver has everything.
func old(t *testing.T) *afterwards {
	t.Helper()
	cluster := pgtest.Cluster(t)
	a := &afterwards{newTownOn(t, natstest.Start(t).URL(), cluster.URL()), cluster, map[string][]client.Request{}}
	env := a.env()
	for _, channel := range a.channels {
		env = append(env, fmt.Sprintf("ONEBELL_CHANNEL_%s_CONCURRENCY=%d", strings.ToUpper(channel), atOnce))
	}
	d := a.serveAs(env)
	a.askFor("before", settledBefore)
	a.allSent(settledBefore)

	release := a.holdAll()
	a.askFor("open", openAtBackup)
	eventually(t, "some of each channel are on the wire, and the others wait", func() bool {
		return a.count(`select count(*) from intents where state in ('pending', 'sending')`) == openAtBackup*len(a.channels) &&
			a.count(`select count(*) from intents where state = 'sending'`) == atOnce*len(a.channels)
	})
	if err := cluster.Backup(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	a.askFor("gap", lostInGap)
	a.allSent(settledBefore + openAtBackup + lostInGap)

	d.signal(syscall.SIGTERM)
	<-d.done
	if err := cluster.RestoreBackup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// askFor publishes n requests on each channel.
func (a *afterwards) askFor(phase string, n int) {
	a.t.Helper()
	for _, channel := range a.channels {
		for i := range n {
			r := a.request(channel, fmt.Sprintf("%s-%d", phase, i))
			a.asked[channel] = append(a.asked[channel], r)
			a.tell(channel, r)
		}
	}
}

// allSent waits until each channel has that many, all of them succeeded.
func (a *afterwards) allSent(n int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%d are sent on each channel", n), func() bool {
		return a.count(`select count(*) from intents where state = 'succeeded'`) == n*len(a.channels)
	})
}

// holdAll has every receiver take what comes, and not answer until release.
func (a *afterwards) holdAll() (release func()) {
	held := make(chan struct{})
	for _, channel := range a.channels {
		a.books(channel).setHook(func(s stage) bool {
			if s == stageTaken {
				<-held
			}
			return true
		})
	}
	return func() {
		for _, channel := range a.channels {
			a.books(channel).setHook(nil)
		}
		close(held)
	}
}

// repeats counts what a receiver got more than once: under one key, a mail's Message-ID for one, else with one body.
func (b *books) repeats() (n int) {
	times := map[string]int{}
	for _, e := range b.all() {
		name := e.key
		if name == "" {
			name = e.body
		}
		if times[name]++; times[name] > 1 {
			n++
		}
	}
	return n
}

// startsAgain starts a dispatcher on the restored database, has producers tell everything once more, and waits until nothing is open.
func (a *afterwards) startsAgain() {
	a.t.Helper()
	a.lapse() // nobody holds what the backup has on the wire
	a.serve()
	for _, channel := range a.channels {
		for _, r := range a.asked[channel] {
			if err := again(func() error { _, err := a.producer.Submit(a.t.Context(), channel, r); return err }); err != nil {
				a.t.Fatal(err)
			}
		}
	}
	eventually(a.t, "nothing is open", func() bool { return a.count(`select count(*) from intents where state in ('pending', 'sending')`) == 0 })
}

// D7, on a base backup that was taken while a dispatcher worked: after restore-mark nothing is sent again that may have been sent, but
// under a key that its receiver remembers, and everything else says so.
func TestD7RestoredBaseBackupSendsNothingSilently(t *testing.T) {
	t.Parallel()
	a := old(t)
	stdout, stderr, status := a.command("", "restore-mark --gap refuse --reason backup --stopped --json")
	if status != exitOK {
		t.Fatalf("restore-mark ended with %d: %s", status, stderr)
	}
	var said restored
	if err := json.Unmarshal([]byte(stdout), &said); err != nil || len(said.Channels) != len(a.channels) {
		t.Fatalf("%s: %v", stdout, err)
	}
	for _, c := range said.Channels {
		want := restoredChannel{Channel: c.Channel, Unknown: openAtBackup}
		if c.Channel == "keyed" {
			want = restoredChannel{Channel: c.Channel, InDoubt: openAtBackup}
		}
		if c != want {
			t.Errorf("marked %+v, want %+v", c, want)
		}
	}

	a.startsAgain()
	for _, channel := range []string{"mail", "plain", "push"} {
		if n := a.books(channel).repeats(); n > 0 {
			t.Errorf("%s: %d came again", channel, n)
		}
		if got := a.count(`select count(*) from intents where channel = $1 and state = 'unknown' and code = 'restored'`, channel); got != openAtBackup {
			t.Errorf("%s: %d are UNKNOWN, want the %d that were open in the backup", channel, got, openAtBackup)
		}
	}
	if n, calls := a.keyed.applied(), len(a.keyed.all()); n != settledBefore+openAtBackup+lostInGap || calls != n+openAtBackup {
		t.Errorf("the keyed receiver was called %d times and applied %d", calls, n)
	}
	if got := a.count(`select count(*) from refusals where verdict = 'stale'`); got != lostInGap*len(a.channels) {
		t.Errorf("%d facts of the gap were refused, want %d", got, lostInGap*len(a.channels))
	}
	if got := query[string](a.town, `select distinct format('%s %s', channel, state) from intents order by 1`); !slices.Equal(got, []string{
		"keyed succeeded", "mail succeeded", "mail unknown", "plain succeeded", "plain unknown", "push succeeded", "push unknown",
	}) {
		t.Errorf("in the end there are %q", got)
	}
	a.holds()
}

// The same without restore-mark: this is what it is for.
func TestD7RestoredBaseBackupUnmarkedSendsAgain(t *testing.T) {
	t.Parallel()
	a := old(t)
	a.startsAgain()
	for _, channel := range []string{"mail", "plain"} {
		if n := a.books(channel).repeats(); n < openAtBackup-atOnce+lostInGap {
			t.Errorf("%s: %d came again; without the mark at least those must that were pending in the backup, and those of the gap", channel, n)
		}
	}
}
