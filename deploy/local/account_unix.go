//go:build unix

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom PostgreSQL's programs run as. The zero value is the caller itself.
type account struct {
	name     string
	uid, gid uint32
	switched bool
}

// unprivileged is the account to run PostgreSQL under: it refuses to run as root.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody to run it under; run as an ordinary user")
}

func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C in the terminal must reach onebell alone, which then stops the database
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithParent(attr)
	return attr
}

// give makes the account the owner of path.
func (a account) give(path string) error {
	if !a.switched {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// reaches says, as an error, which folder above path is closed to the account.
func (a account) reaches(path string) error {
	if !a.switched {
		return nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !a.mayEnter(info) {
			return fmt.Errorf("the folder %s is closed to the user %s, under whom PostgreSQL runs when onebell is root; choose a data folder elsewhere (for instance below /tmp or /var/lib) or open it (chmod o+x)", dir, a.name)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (a account) mayEnter(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// owns says whether the folder belongs to this process or to the account.
func (a account) owns(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(stat.Uid) == os.Geteuid() || a.switched && stat.Uid == a.uid)
}

// lockFolder takes dir for this process until the file is closed or the process ends.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("the folder %s is in use by another onebell on this machine; stop it or choose another data folder", dir), f.Close())
	}
	return f, nil
}

// alive says whether a process of that id exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// How PostgreSQL's first process is told to stop: https://www.postgresql.org/docs/current/server-shutdown.html
var (
	signalFast      = syscall.SIGINT
	signalImmediate = syscall.SIGQUIT
)
