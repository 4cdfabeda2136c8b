package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// BinEnv names the variable that points at the folder of initdb and postgres.
const BinEnv = "ONEBELL_PG_BIN"

// oldestPostgres is the oldest major version that onebell's schema and statements are written for.
const oldestPostgres = 15

// NotFoundError says that this machine has no usable PostgreSQL binaries, and how to get some.
type NotFoundError struct {
	// Reason is what was found instead, a clause without a full stop.
	Reason string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no usable PostgreSQL on this machine: %s; install version %d or newer (Debian: apt-get install postgresql), "+
		"set %s to the folder of its initdb and postgres, or set ONEBELL_DATABASE_URL to a running server", e.Reason, oldestPostgres, BinEnv)
}

// Binaries is a folder of PostgreSQL's programs and their major version.
type Binaries struct {
	Dir   string
	Major int
}

// FindBinaries looks for initdb and postgres: $ONEBELL_PG_BIN alone where that is set; else Debian's and the usual
// installation folders, newest first, and at last the PATH. major 0 takes any version that onebell supports, another
// value only that one (a data folder belongs to one version). The error is a *NotFoundError.
func FindBinaries(ctx context.Context, major int) (Binaries, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		return firstUsable(ctx, []string{dir}, major)
	}
	return firstUsable(ctx, usualFolders(), major)
}

// usualFolders puts versioned folders before the PATH: what stands in the PATH may be a wrapper that drops privileges or
// picks a cluster by itself, as Debian's do.
func usualFolders() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", "/opt/homebrew/opt/postgresql/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil { // only for a malformed pattern
			continue
		}
		slices.SortFunc(found, func(a, b string) int { return firstNumber(b) - firstNumber(a) })
		dirs = append(dirs, found...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

func firstUsable(ctx context.Context, dirs []string, major int) (Binaries, error) {
	reason := "neither initdb nor postgres was found"
	for _, dir := range dirs {
		version, err := versionOf(ctx, dir)
		switch {
		case err != nil:
			reason = fmt.Sprintf("%s: %v", dir, err)
		case version < oldestPostgres:
			reason = fmt.Sprintf("%s is version %d", dir, version)
		case major != 0 && version != major:
			reason = fmt.Sprintf("the data folder was made by version %d, %s is version %d", major, dir, version)
		default:
			return Binaries{Dir: dir, Major: version}, nil
		}
	}
	return Binaries{}, &NotFoundError{Reason: reason}
}

// versionOf asks the server program itself; a folder without initdb is of no use and answers an error.
func versionOf(ctx context.Context, dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("postgres --version: %w", err)
	}
	version := firstNumber(strings.TrimPrefix(string(out), "postgres (PostgreSQL)"))
	if version == 0 {
		return 0, fmt.Errorf("postgres --version answered %q", strings.TrimSpace(string(out)))
	}
	return version, nil
}

// firstNumber is the first run of digits in s, 0 where there is none.
func firstNumber(s string) int {
	start := strings.IndexAny(s, "0123456789")
	if start < 0 {
		return 0
	}
	end := start
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(s[start:end])
	if err != nil {
		return 0
	}
	return n
}
