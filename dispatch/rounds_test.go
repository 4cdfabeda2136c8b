package dispatch_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/intents"
)

// rounds counts how often a dispatcher looked for something of its own accord, so that a test can wait for that instead of for a time.
type rounds struct {
	dispatch.Store
	claims, scouts, patrols atomic.Int64 // calls that have returned
}

func (s *rounds) Claim(x ctx, req intents.ClaimRequest) ([]intents.Claim, error) {
	defer s.claims.Add(1)
	return s.Store.Claim(x, req)
}

func (s *rounds) DueChannels(x ctx) ([]string, error) {
	defer s.scouts.Add(1)
	return s.Store.DueChannels(x)
}

func (s *rounds) TakeOver(x ctx, channels []string, owner string, lease time.Duration, n int) ([]intents.Claim, error) {
	defer s.patrols.Add(1)
	return s.Store.TakeOver(x, channels, owner, lease, n)
}

// looked waits until n looks have been begun and ended from now on. What a look found is acted on at the latest when the next one has ended.
func (d *running) looked(n int64, looks *atomic.Int64) {
	d.rig.t.Helper()
	want := looks.Load() + n + 1 // one may be on its way that began before
	d.rig.until(fmt.Sprint(n, " more looks"), func() bool { return looks.Load() >= want })
}

// scouted waits for two looks at what is due.
func (d *running) scouted() { d.rig.t.Helper(); d.looked(2, &d.looks.scouts) }

// patrolled waits for a look at the leases.
func (d *running) patrolled() { d.rig.t.Helper(); d.looked(1, &d.looks.patrols) }

// comes lets the time come that everything waits for which is not due yet.
func (r *rig) comes() {
	r.t.Helper()
	if _, err := r.db.Exec(bg, `update agenda set at = now() where kind = 'due'; update intents set not_before = now() where not_before > now()`); err != nil {
		r.t.Fatal(err)
	}
}
