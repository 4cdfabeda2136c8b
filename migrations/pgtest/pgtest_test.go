package pgtest

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestDatabasesAreMigratedFreshAndQuick(t *testing.T) {
	first := New(t) // starts the server
	begin := time.Now()
	const n = 5
	var urls []string
	for range n {
		urls = append(urls, New(t))
	}
	each := time.Since(begin) / n
	t.Logf("a fresh database takes %s", each)
	if each > 250*time.Millisecond { // a wide bound: the machine may be busy
		t.Errorf("a fresh database takes %s", each)
	}
	query(t, first, "insert into duties values ('x', 'y', now())")
	for _, url := range urls {
		if got := query(t, url, "select count(*) from duties"); got != int64(0) {
			t.Errorf("a fresh database has %v rows", got)
		}
	}
}

// query runs one statement on a connection of its own and returns the first column of its first row, if any.
func query(t *testing.T, url, sql string) any {
	t.Helper()
	conn := dial(t, url)
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (any, error) {
		v, err := row.Values()
		if err != nil || len(v) == 0 {
			return nil, err
		}
		return v[0], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

func dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	return conn
}
