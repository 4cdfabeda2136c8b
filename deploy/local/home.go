package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const tempPrefix = "onebell-pg-"

// home is the folder of one local server: "data", "password", "log" and the lock that keeps others out.
type home struct {
	dir       string
	temporary bool
	as        account
	lock      *os.File
}

// openHome takes dir, or a new temporary folder, for this process.
func openHome(dir string, inMemory bool, as account) (_ *home, err error) {
	h := &home{dir: dir, as: as}
	if dir == "" {
		base := tempBase(inMemory, as)
		removeStale(base, as)
		if h.dir, err = os.MkdirTemp(base, tempPrefix); err != nil {
			return nil, err
		}
		h.temporary = true
	} else {
		if h.dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(h.dir, 0o700); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if err := as.reaches(h.dir); err != nil {
		return nil, err
	}
	if h.lock, err = lockFolder(h.dir); err != nil {
		h.temporary = false // somebody else's now
		return nil, err
	}
	return h, as.give(h.dir)
}

// tempBase is the system's temporary folder, or /tmp where the account cannot reach that (a private TMPDIR of root).
func tempBase(inMemory bool, as account) string {
	if dir := memoryFolder(); inMemory && dir != "" {
		return dir
	}
	if base := os.TempDir(); as.reaches(filepath.Join(base, "x")) == nil {
		return base
	}
	return "/tmp"
}

// removeStale removes what killed processes left behind. Failures do not matter: the next start tries again.
func removeStale(base string, as account) {
	found, err := filepath.Glob(filepath.Join(base, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !as.owns(info) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
			continue // just being made
		}
		stale := &home{dir: dir, temporary: true, as: as}
		if stale.lock, err = lockFolder(dir); err != nil {
			continue
		}
		if pid := stale.uncleanPID(); pid != 0 && alive(pid) {
			stale.temporary = false // its server outlived it, or is about to end
		}
		_ = stale.close()
	}
}

func (h *home) data() string { return filepath.Join(h.dir, "data") }

// socketDir is the data folder where a socket's path fits (the system allows about 100 bytes), else empty: TCP only.
func (h *home) socketDir() string {
	if len(h.data())+len("/.s.PGSQL.65535.lock") > 100 {
		return ""
	}
	return h.data()
}

// major is the version that made the data, 0 where there is none yet.
func (h *home) major() int {
	text, err := os.ReadFile(filepath.Join(h.data(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return n
}

// prepare makes the data folder where there is none and answers the password. The folder gets its name when it is
// complete: a start that was killed in the middle leaves nothing that looks like data.
func (h *home) prepare(ctx context.Context, bin Binaries, durable bool) (string, error) {
	if h.major() != 0 {
		text, err := os.ReadFile(filepath.Join(h.dir, "password"))
		if err != nil {
			return "", fmt.Errorf("the data folder has lost its password: %w", err)
		}
		return string(text), nil
	}
	half := h.data() + ".new"
	if err := os.RemoveAll(half); err != nil {
		return "", err
	}
	password := rand.Text()
	secret := filepath.Join(h.dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return "", err
	}
	if err := h.as.give(secret); err != nil {
		return "", err
	}
	if err := h.initdb(ctx, bin, half, secret, durable); err != nil {
		return "", err
	}
	return password, os.Rename(half, h.data())
}

func (h *home) initdb(ctx context.Context, bin Binaries, data, secret string, durable bool) error {
	args := []string{"-D", data, "-U", superuser, "--pwfile", secret, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions"}
	if !durable {
		args = append(args, "--no-sync")
	}
	if err := h.run(ctx, filepath.Join(bin.Dir, "initdb"), "", args...); err != nil {
		return err
	}
	return h.run(ctx, filepath.Join(bin.Dir, "postgres"), "create database "+databaseName+"\n",
		"--single", "-D", data, "-c", "log_min_messages=fatal", "-c", "fsync="+onOff(durable), "postgres")
}

// run runs one of PostgreSQL's programs to its end.
func (h *home) run(ctx context.Context, program, input string, args ...string) error {
	var out strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = h.dir, environment(), h.as.attributes()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	proc, err := startProcess(cmd)
	if err != nil {
		return err
	}
	select {
	case <-proc.done:
	case <-ctx.Done():
		return proc.stop(ctx, signalFast)
	}
	if proc.err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), proc.err, strings.TrimSpace(out.String()))
	}
	return nil
}

// close gives the folder up, and removes it where it was a temporary one.
func (h *home) close() error {
	var err error
	if h.temporary {
		err = os.RemoveAll(h.dir)
	}
	if h.lock != nil {
		err = errors.Join(err, h.lock.Close())
		h.lock = nil
	}
	return err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
