package pgtest

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const insert = "-- name: mark\ninsert into duties values ($1, 'owner', now())"

// run sends the statement with an argument (extended protocol, prepared by pgx on first use).
func run(t *testing.T, conn *pgx.Conn, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := conn.Exec(ctx, insert, name)
	return err
}

func rows(t *testing.T, url string) int64 {
	t.Helper()
	n, ok := query(t, url, "select count(*) from duties").(int64)
	if !ok {
		t.Fatal("no count")
	}
	return n
}

// mustBreak asserts that the client saw a broken connection, not an answer of the server.
func mustBreak(t *testing.T, err error) {
	t.Helper()
	var answer *pgconn.PgError
	switch {
	case err == nil:
		t.Fatal("the client got an answer")
	case errors.As(err, &answer):
		t.Fatalf("the client got an answer: %v", err)
	case errors.Is(err, context.DeadlineExceeded):
		t.Fatalf("the connection was not cut: %v", err)
	}
}

func TestSingleStatementLostOnEitherWay(t *testing.T) {
	for name, test := range map[string]struct {
		fault    Fault
		prepared bool
		want     int64
	}{
		"request, first use": {LoseRequest, false, 0},
		"request, prepared":  {LoseRequest, true, 1},
		"reply, first use":   {LoseReply, false, 1},
		"reply, prepared":    {LoseReply, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			url := New(t)
			wire := Proxy(t, url)
			conn := dial(t, wire.URL())
			if test.prepared { // the statement's text went over the wire before the fault was armed
				if err := run(t, conn, "before"); err != nil {
					t.Fatal(err)
				}
			}
			hit := wire.Arm(test.fault, "NAME: mark")
			mustBreak(t, run(t, conn, "lost"))
			hit.Wait(t)
			if got := rows(t, url); got != test.want {
				t.Errorf("%d rows, want %d", got, test.want)
			}
			if err := run(t, dial(t, wire.URL()), "again"); err != nil {
				t.Errorf("a fault must trigger once: %v", err)
			}
		})
	}
}

func TestCommitLostOnEitherWay(t *testing.T) {
	for name, test := range map[string]struct {
		fault Fault
		want  int64
	}{
		"request": {LoseRequest, 1},
		"reply":   {LoseReply, 2},
	} {
		t.Run(name, func(t *testing.T) {
			url := New(t)
			wire := Proxy(t, url)
			hit := wire.ArmAfter(test.fault, "commit", "name: mark")

			other := begin(t, dial(t, wire.URL())) // commits without the marked statement
			if _, err := other.Exec(t.Context(), "insert into duties values ($1, 'o', now())", "other"); err != nil {
				t.Fatal(err)
			}
			if err := other.Commit(t.Context()); err != nil {
				t.Fatalf("the wrong commit was hit: %v", err)
			}
			tx := begin(t, dial(t, wire.URL()))
			if _, err := tx.Exec(t.Context(), insert, "lost"); err != nil {
				t.Fatal(err)
			}
			mustBreak(t, tx.Commit(t.Context()))
			hit.Wait(t)
			if got := rows(t, url); got != test.want {
				t.Errorf("%d rows, want %d", got, test.want)
			}
		})
	}
}

func begin(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestReplyLostInsideTransactionRollsBackBeforeTheClientKnows(t *testing.T) {
	url := New(t)
	wire := Proxy(t, url)
	watcher := dial(t, url)
	for range 20 { // without the wait the server would be the faster one now and then
		tx := begin(t, dial(t, wire.URL()))
		wire.Arm(LoseReply, "name: mark")
		_, err := tx.Exec(t.Context(), insert, "lost")
		mustBreak(t, err)
		var open int
		if err := watcher.QueryRow(t.Context(), "select count(*) from pg_locks where relation = 'duties'::regclass and pid <> pg_backend_pid()").Scan(&open); err != nil {
			t.Fatal(err)
		}
		if open != 0 {
			t.Fatal("the old transaction is still open")
		}
	}
	if got := rows(t, url); got != 0 {
		t.Errorf("%d rows", got)
	}
}

func TestBatchIsOneGroup(t *testing.T) {
	for fault, want := range map[Fault]int64{LoseRequest: 0, LoseReply: 2} {
		url := New(t)
		wire := Proxy(t, url)
		hit := wire.Arm(fault, "name: mark")
		var batch pgx.Batch
		batch.Queue("insert into duties values ($1, 'o', now())", "first")
		batch.Queue(insert, "second")
		mustBreak(t, dial(t, wire.URL()).SendBatch(t.Context(), &batch).Close())
		hit.Wait(t)
		if got := rows(t, url); got != want {
			t.Errorf("fault %d: %d rows, want %d", fault, got, want)
		}
	}
}

func TestHeldUntilReleased(t *testing.T) {
	for fault, want := range map[Fault]int64{HoldRequest: 0, HoldReply: 1} {
		url := New(t)
		wire := Proxy(t, url)
		conn := dial(t, wire.URL())
		hit := wire.Arm(fault, "name: mark")
		result := make(chan error, 1)
		go func() { result <- run(t, conn, "held") }()
		hit.Wait(t)
		if got := rows(t, url); got != want {
			t.Errorf("fault %d: %d rows while held, want %d", fault, got, want)
		}
		select {
		case err := <-result:
			t.Fatalf("fault %d: answered while held: %v", fault, err)
		default:
		}
		hit.Release()
		if err := <-result; err != nil {
			t.Errorf("fault %d: %v", fault, err)
		}
		if got := rows(t, url); got != 1 {
			t.Errorf("fault %d: %d rows after the release", fault, got)
		}
		if err := run(t, conn, "next"); err != nil {
			t.Errorf("fault %d: the connection is of no use after the release: %v", fault, err)
		}
	}
}

func TestNeverReleasedIsABlackHole(t *testing.T) {
	for fault, want := range map[Fault]int64{HoldRequest: 0, HoldReply: 1} {
		url := New(t)
		wire := Proxy(t, url)
		conn := dial(t, wire.URL())
		hit := wire.Arm(fault, "name: mark")
		ctx, giveUp := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := conn.Exec(ctx, insert, "gone")
			result <- err
		}()
		hit.Wait(t)
		giveUp()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("fault %d: %v", fault, err)
		}
		if got := rows(t, url); got != want {
			t.Errorf("fault %d: %d rows, want %d", fault, got, want)
		}
	}
}

func TestCutAndRefuse(t *testing.T) {
	wire := Proxy(t, New(t))
	conn := dial(t, wire.URL())
	wire.Cut()
	mustBreak(t, run(t, conn, "cut"))
	if err := run(t, dial(t, wire.URL()), "after"); err != nil {
		t.Errorf("Cut must leave new connections alone: %v", err)
	}
	wire.Refuse(true)
	if _, err := pgx.Connect(t.Context(), wire.URL()); err == nil {
		t.Error("connected while refusing")
	}
	wire.Refuse(false)
	dial(t, wire.URL())
}

func TestStatementErrorPassesThrough(t *testing.T) {
	wire := Proxy(t, New(t))
	conn := dial(t, wire.URL())
	if err := run(t, conn, "twice"); err != nil {
		t.Fatal(err)
	}
	var answer *pgconn.PgError
	if err := run(t, conn, "twice"); !errors.As(err, &answer) || answer.Code != "23505" {
		t.Errorf("got %v", err)
	}
	if err := run(t, conn, "other"); err != nil {
		t.Error(err)
	}
}
