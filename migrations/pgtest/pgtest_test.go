package pgtest

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestDatabasesAreMigratedAndFresh(t *testing.T) {
	first := New(t)
	query(t, first, "insert into duties values ('x', 'y', now())")
	second := New(t)
	if got := query(t, second, "select count(*) from duties"); got != int64(0) {
		t.Errorf("a fresh database has %v rows", got)
	}
}

// A copy is many times cheaper than migrating anew: the times at which its migrations were applied are the template's.
func TestDatabasesAreCopiesOfOneThatWasMigratedOnce(t *testing.T) {
	const applied = "select string_agg(tstamp::text, ' ' order by id) from goose_db_version"
	first, second := query(t, New(t), applied), query(t, New(t), applied)
	if template := query(t, withDatabase(shared.pg.URL(), template), applied); template == nil || first != template || second != template {
		t.Errorf("migrated at %v and %v, the template at %v", first, second, template)
	}
}

func TestDatabaseIsDroppedWithTheTest(t *testing.T) {
	var url string
	t.Run("uses one", func(t *testing.T) { url = New(t); dial(t, url) })
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Error("the database outlived its test")
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
