package local

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childEnv tells this test binary that it is to start a server, say where, and wait to be killed.
const childEnv = "ONEBELL_LOCAL_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func child() error {
	p, err := StartPostgres(context.Background(), PostgresOptions{InMemory: true})
	if err != nil {
		return err
	}
	fmt.Println(p.URL())
	fmt.Println(p.home.dir)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the parent closes the pipe
		return err
	}
	return p.Close()
}

// startChild re-executes this binary as a process that has a server, and returns where.
func startChild(t *testing.T, cmd *exec.Cmd) (url, dir string, stdin io.Closer) {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	var said []string
	for len(said) < 2 && lines.Scan() {
		said = append(said, lines.Text())
	}
	if len(said) < 2 || !strings.HasPrefix(said[0], "postgres://") {
		t.Fatalf("the child said %q", said)
	}
	return said[0], said[1], in
}

func TestServerDiesWithAKilledProcess(t *testing.T) {
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	url, dir, _ := startChild(t, cmd)
	number(t, url, "select 1")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says "killed"
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			break
		}
		_ = conn.Close(t.Context())
		if time.Now().After(deadline) {
			t.Fatal("the server outlived the process that started it")
		}
	}
	for deadline := time.Now().Add(patience); ; <-tick.C { // what it left is cleared once its server has ended
		removeStale(filepath.Dir(dir), as) // as every start does
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was never removed", dir)
		}
	}
}

// TestAsOrdinaryUserWithoutHome runs the server from a process that is not root and knows nothing of its user.
func TestAsOrdinaryUserWithoutHome(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Where go test puts the binary, others cannot enter.
	binary := filepath.Join(reachable(t), "local.test")
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = []string{childEnv + "=1"}
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, errUID := strconv.Atoi(nobody.Uid)
		gid, errGID := strconv.Atoi(nobody.Gid)
		if errUID != nil || errGID != nil {
			t.Fatal(errUID, errGID)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	url, dir, stdin := startChild(t, cmd)
	number(t, url, "create table kept (x int)", countRows)
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s was not removed: %v", dir, err)
	}
}

func TestFolderClosedToTheDatabasesUserIsNamed(t *testing.T) {
	as := account{name: "postgres", uid: 4711, gid: 4711, switched: true}
	closed := filepath.Join(reachable(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	err := as.reaches(filepath.Join(closed, "pg"))
	if err == nil || !strings.Contains(err.Error(), closed+" is closed to the user postgres") {
		t.Errorf("got %v", err)
	}
	if err := os.Chmod(closed, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := as.reaches(filepath.Join(closed, "pg")); err != nil {
		t.Errorf("got %v", err)
	}
	t.Setenv("TMPDIR", closed)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if base := tempBase(false, as); base != "/tmp" {
		t.Errorf("a private TMPDIR is used: %s", base)
	}
}
