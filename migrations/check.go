package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

var (
	// ErrOlder says that the database lacks migrations that this binary needs. Nothing is wrong with the data.
	ErrOlder = errors.New("the database's schema is older than this onebell; run: onebell migrate")
	// ErrNewer says that a newer onebell has changed the schema in a way that this binary cannot work with.
	ErrNewer = errors.New("the database's schema is newer than this onebell and no longer fits it; start a newer onebell")
	// ErrServer says that the server is none that onebell can work with, whatever its schema.
	ErrServer = errors.New("unsuitable PostgreSQL server")
)

// oldestServer is PostgreSQL's server_version_num for 15.0.
const oldestServer = 150000

// Check says whether this binary can work on the database as it is, and changes nothing. A newer schema that still fits
// is allowed, with a warning in the log. The errors are ErrOlder, ErrNewer, ErrServer or a failed connection.
func Check(ctx context.Context, url string, log *slog.Logger) error {
	return runner{url: url, files: schema(), log: log}.check(ctx)
}

// Status lists every migration that this binary knows, oldest first, and changes nothing.
func Status(ctx context.Context, url string, log *slog.Logger) ([]Migration, error) {
	return runner{url: url, files: schema(), log: log}.status(ctx)
}

func (r runner) check(ctx context.Context) error {
	known, err := r.known()
	if err != nil {
		return err
	}
	found, err := r.inspect(ctx)
	if err != nil {
		return err
	}
	for _, m := range known {
		if _, applied := found.applied[m.Version]; !applied {
			return fmt.Errorf("%w (the first one missing is %s)", ErrOlder, m.Name)
		}
	}
	return r.fits(found, known)
}

// mayMigrate is check without the wish that all is applied.
func (r runner) mayMigrate(ctx context.Context) error {
	known, err := r.known()
	if err != nil {
		return err
	}
	found, err := r.inspect(ctx)
	if err != nil {
		return err
	}
	return r.fits(found, known)
}

func (r runner) fits(found database, known []Migration) error {
	newest := known[len(known)-1].Version
	if found.newest() <= newest {
		return nil
	}
	if found.oldestBinary > newest {
		return fmt.Errorf("%w (the schema is at %d and needs a onebell that knows %d; this one knows %d)", ErrNewer, found.newest(), found.oldestBinary, newest)
	}
	r.log.Warn("the database's schema is newer than this onebell but still fits it", "schema", found.newest(), "known", newest)
	return nil
}

func (r runner) status(ctx context.Context) ([]Migration, error) {
	known, err := r.known()
	if err != nil {
		return nil, err
	}
	found, err := r.inspect(ctx)
	if err != nil {
		return nil, err
	}
	for i := range known {
		known[i].AppliedAt = found.applied[known[i].Version]
	}
	return known, nil
}

// known lists the files, oldest first; there is always one.
func (r runner) known() ([]Migration, error) {
	names, err := fs.Glob(r.files, "*.sql")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("this onebell was built without migrations")
	}
	list := make([]Migration, 0, len(names))
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		list = append(list, Migration{Version: version, Name: name})
	}
	slices.SortFunc(list, func(a, b Migration) int { return int(a.Version - b.Version) })
	return list, nil
}

// database is what was found in one.
type database struct {
	applied      map[int64]time.Time
	oldestBinary int64 // 0 where the database does not say
}

func (d database) newest() int64 {
	var newest int64
	for version := range d.applied {
		newest = max(newest, version)
	}
	return newest
}

// inspect reads what is applied, from a server that onebell can work with.
func (r runner) inspect(ctx context.Context) (_ database, err error) {
	db, err := r.open()
	if err != nil {
		return database{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := suits(ctx, db); err != nil {
		return database{}, err
	}
	found := database{applied: map[int64]time.Time{}}
	rows, err := db.QueryContext(ctx, "select version_id, tstamp::timestamptz from goose_db_version where is_applied and version_id > 0")
	if isMissingTable(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("read the schema's version: %w", err)
	}
	for rows.Next() {
		var version int64
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return found, errors.Join(err, rows.Close())
		}
		found.applied[version] = at
	}
	if err := rows.Err(); isMissingTable(err) {
		return found, nil
	} else if err != nil {
		return found, fmt.Errorf("read the schema's version: %w", err)
	}
	err = db.QueryRowContext(ctx, "select oldest_binary from compatibility").Scan(&found.oldestBinary)
	if err != nil && !isMissingTable(err) {
		return found, fmt.Errorf("read the schema's compatibility: %w", err)
	}
	return found, nil
}

// suits refuses old servers and standbys: https://www.postgresql.org/docs/current/hot-standby.html
func suits(ctx context.Context, db *sql.DB) error {
	var version int
	var standby bool
	err := db.QueryRowContext(ctx, "select current_setting('server_version_num')::int, pg_is_in_recovery()").Scan(&version, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("reach the database: %w", err)
	case version < oldestServer:
		return fmt.Errorf("%w: it is version %d, onebell needs 15 or newer", ErrServer, version/10000)
	case standby:
		return fmt.Errorf("%w: it is a standby; point the database URL at the primary", ErrServer)
	}
	return nil
}

func isMissingTable(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == "42P01"
}
