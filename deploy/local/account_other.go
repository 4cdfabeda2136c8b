//go:build !unix

package local

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var errPlatform = errors.New("a local PostgreSQL is not started on this system; set ONEBELL_DATABASE_URL to a running server")

type account struct{}

func unprivileged() (account, error)             { return account{}, errPlatform }
func (account) attributes() *syscall.SysProcAttr { return nil }
func (account) give(string) error                { return errPlatform }
func (account) reaches(string) error             { return errPlatform }
func (account) owns(fs.FileInfo) bool            { return false }
func lockFolder(string) (*os.File, error)        { return nil, errPlatform }
func memoryFolder() string                       { return "" }
func alive(int) bool                             { return true }

var (
	signalFast      = syscall.SIGTERM
	signalImmediate = syscall.SIGKILL
)
