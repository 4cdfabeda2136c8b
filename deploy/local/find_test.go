package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBinaries is a folder whose postgres says that it is that version.
func fakeBinaries(t *testing.T, says string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUnusablePostgresSaysHowToGetOne(t *testing.T) {
	for name, test := range map[string]struct {
		dir   string
		major int
		words string
	}{
		"nothing there":   {t.TempDir(), 0, "no such file"},
		"too old":         {fakeBinaries(t, "postgres (PostgreSQL) 14.11 (Debian 14.11-1)"), 0, "version 14"},
		"other than data": {fakeBinaries(t, "postgres (PostgreSQL) 17.2"), 16, "made by version 16"},
		"no version":      {fakeBinaries(t, "hello"), 0, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(BinEnv, test.dir)
			_, err := FindBinaries(t.Context(), test.major)
			var notFound *NotFoundError
			if !errors.As(err, &notFound) {
				t.Fatalf("got %v", err)
			}
			for _, words := range []string{test.words, "apt-get install postgresql", BinEnv, "ONEBELL_DATABASE_URL"} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q lacks %q", err, words)
				}
			}
		})
	}
}

func TestVersionsAreRead(t *testing.T) {
	for says, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)": 15,
		"postgres (PostgreSQL) 18beta1":                        18,
	} {
		t.Setenv(BinEnv, fakeBinaries(t, says))
		found, err := FindBinaries(t.Context(), 0)
		if err != nil || found.Major != want {
			t.Errorf("%s: %v, %v", says, found, err)
		}
	}
}

func TestStartWithoutBinariesLeavesNothing(t *testing.T) {
	t.Setenv(BinEnv, t.TempDir())
	t.Setenv("TMPDIR", reachable(t))
	var notFound *NotFoundError
	if _, err := StartPostgres(t.Context(), PostgresOptions{}); !errors.As(err, &notFound) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
