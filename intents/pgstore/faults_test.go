package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

// S4: exactly as many callers as connections, each doing all that a call can do, while somebody lists. None waits for ever.
func TestS4CallersAsManyAsConnections(t *testing.T) {
	b := benchAt(t, pgtest.New(t), pgstore.Options{MaxConns: 2})
	fs := []func(){func() {
		for range 20 {
			if _, err := b.ListIntents(b.ctx, intents.Filter{Limit: 10}); err != nil {
				t.Error(err)
			}
		}
	}}
	for worker := range 4 {
		fs = append(fs, func() {
			for i := range 8 {
				key := fmt.Sprintf("s:%d-%d", worker, i)
				b.admit(ask(key, 0), ask(key, 1), ask(key, 0, text("other")))
				for _, c := range b.claim(me, 2) {
					b.settle(succeeded(c, me))
				}
				b.takeOver(me)
				if _, _, _, err := b.Cancel(b.ctx, ask(key, 1).Identity, "shop"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	together(fs...)
	b.holds()
}

// load runs whole lives of intents until stop is called, and counts what went over its wire. Errors are what the fault causes; the
// caller of a store calls again, and so does this.
type load struct {
	b    *bench
	quit chan struct{}
	all  sync.WaitGroup
	mu   sync.Mutex
	sent map[uuid.UUID]map[int32]bool // generations that made an effect
}

func (b *bench) load(workers int) *load {
	l := &load{b: b, quit: make(chan struct{}), sent: map[uuid.UUID]map[int32]bool{}}
	for w := range workers {
		l.all.Go(func() { l.work(w) })
	}
	return l
}

func (l *load) work(w int) {
	for i := 0; ; i++ {
		select {
		case <-l.quit:
			return
		default:
		}
		keyed, plain := ask(fmt.Sprintf("l:%d-%d-k", w, i), 0, now), ask(fmt.Sprintf("l:%d-%d", w, i), 0)
		batch := batchOf(keyed, plain, plain)
		var vs []intents.Verdict
		l.insist(func() (err error) { vs, err = l.b.Admit(l.b.ctx, batch); return err })
		var cs []intents.Claim
		wish := wish("mail", me, 3)
		l.insist(func() (err error) { cs, err = l.b.Claim(l.b.ctx, wish); return err })
		if vs[0].Claim != nil {
			cs = append(cs, *vs[0].Claim)
		}
		var settlements []intents.Settlement
		for _, c := range cs {
			settlements = append(settlements, l.send(c))
		}
		l.insist(func() error { _, err := l.b.Settle(l.b.ctx, settlements, []uuid.UUID{batch.Batch}); return err })
	}
}

// send makes an effect for a claim, and fails the test when that claim made one before.
func (l *load) send(c intents.Claim) intents.Settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent[c.ID] == nil {
		l.sent[c.ID] = map[int32]bool{}
	}
	if l.sent[c.ID][c.Generation] {
		l.b.t.Errorf("generation %d of %v sent twice", c.Generation, c.ID)
	}
	l.sent[c.ID][c.Generation] = true
	if c.Generation < 3 && c.ID[15]%3 == 0 {
		return notSent(c, me, 0)
	}
	return succeeded(c, me)
}

// insist calls again, with the same arguments, until it succeeds.
func (l *load) insist(call func() error) {
	for call() != nil {
		if l.b.ctx.Err() != nil {
			l.b.t.Error("the store did not come back")
			return
		}
	}
}

// stop ends the load, finishes what is open, and compares the record with what was sent.
func (l *load) stop() {
	l.b.t.Helper()
	close(l.quit)
	l.all.Wait()
	for cs := l.b.claim(me, 100); len(cs) > 0; cs = l.b.claim(me, 100) {
		for _, c := range cs {
			l.b.settle(l.send(c))
		}
	}
	l.compare()
}

func (l *load) compare() {
	l.b.t.Helper()
	effects := 0
	for _, generations := range l.sent {
		effects += len(generations)
	}
	if n := one[int](l.b, `select count(*) from attempts where code <> 'lease-over'`); n != effects {
		l.b.t.Errorf("%d attempts on record, %d effects", n, effects)
	}
	if n := one[int](l.b, `select count(*) from intents where state <> 'succeeded'`); n != 0 {
		l.b.t.Errorf("%d intents did not succeed", n)
	}
	if len(l.sent) < 20 {
		l.b.t.Errorf("only %d intents: that is no load", len(l.sent))
	}
	l.b.holds()
}

// until polls until there are n intents more than now: the load is running.
func (b *bench) until(n int) {
	b.t.Helper()
	for want := one[int](b, `select count(*) from keys`) + n; one[int](b, `select count(*) from keys, pg_sleep(0.005)`) < want; {
		if b.ctx.Err() != nil {
			b.t.Fatal("the load stands still")
		}
	}
}

func TestO2ReadOnlyForAWhile(t *testing.T) {
	b := newBench(t)
	l := b.load(3)
	b.until(20)
	name := one[string](b, `select quote_ident(current_database())`)
	b.exec("alter database " + name + " set default_transaction_read_only = on")
	b.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name <> $1`, bystander)
	// Nothing gets through now: the count stands still over a whole round of tries.
	if _, err := b.Admit(b.ctx, batchOf(ask("o:1", 0))); err == nil {
		t.Error("a read-only server took an admission")
	}
	if _, err := pgstore.Open(b.ctx, b.url, pgstore.Options{}); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a new store on a read-only server: %v", err)
	}
	b.exec(`set default_transaction_read_only = off; alter database ` + name + ` reset default_transaction_read_only`)
	b.until(20) // with connections that were made read-only
	l.stop()
}

func TestO2ColumnsAreAddedUnderLoad(t *testing.T) {
	b := newBench(t)
	l := b.load(3)
	for _, table := range []string{"intents", "keys", "agenda", "contents", "attempts", "outbox"} {
		b.until(10)
		b.exec("alter table " + table + " add column added_later int default 7")
	}
	b.until(10)
	l.stop()
}

func TestO2EveryConnectionIsKilledAgainAndAgain(t *testing.T) {
	b := newBench(t)
	l := b.load(3)
	for range 25 {
		b.until(4)
		b.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name <> $1`, bystander)
	}
	l.stop()
}

// The server itself dies and comes back: what was committed stands, what was not is done again.
func TestCrashingServer(t *testing.T) {
	server := pgtest.Cluster(t, pgtest.Durable())
	b := benchAt(t, server.URL(), pgstore.Options{MaxConns: 4})
	l := b.load(3)
	for range 2 {
		b.until(20)
		b.db.Reset()
		if err := server.Stop(local.Immediate); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.db = pool(t, b.ctx, server.URL())
	}
	b.until(20)
	l.stop()
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	empty, _, _ := strings.Cut(pgtest.New(t), "/t_") // the same server's own database, which nobody migrated
	for name, test := range map[string]struct{ url, want string }{
		"not a URL":    {"postgres://user:hunter2@host:port/name", "should look like"},
		"nobody there": {"postgres://user:hunter2@127.0.0.1:1/name?sslmode=disable", "reachable"},
		"no table":     {empty + "/postgres?sslmode=disable", "onebell migrate"},
	} {
		s, err := pgstore.Open(ctx, test.url, pgstore.Options{})
		if err == nil {
			s.Close()
			t.Errorf("%s: it opened", name)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that follows another takes no writes, and none may be sent to it after a failover.
func TestStandbyIsRefused(t *testing.T) {
	server := pgtest.Cluster(t)
	b := benchAt(t, server.URL(), pgstore.Options{})
	signal := filepath.Join(one[string](b, `show data_directory`), "standby.signal")
	b.db.Reset()
	if err := server.Stop(local.Fast); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signal, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(b.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Admit(b.ctx, batchOf(ask("s:1", 0))); err == nil {
		t.Error("a standby took an admission")
	}
	if s, err := pgstore.Open(b.ctx, server.URL(), pgstore.Options{}); err == nil {
		s.Close()
		t.Error("a standby was opened")
	} else if !strings.Contains(err.Error(), "must be a primary") {
		t.Error(err)
	}
}
