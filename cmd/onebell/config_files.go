package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxSecretFile bounds what is read of a secret's file, in bytes.
const maxSecretFile = 64 << 10

// secretFile ties a secret to the file that may hold it.
type secretFile struct {
	name   string // of the variable without _FILE
	secret *secret
	path   filePath
}

// resolve reads the secret from its file, if one is named. The warning says what is wrong with the file's permissions but
// does not stop a start: container platforms mount secrets readable by all inside the container.
func (f secretFile) resolve() (warning string, err error) {
	if f.path == "" {
		return "", nil
	}
	if f.secret.source != "" {
		return "", errors.New("is set beside " + f.name + "; keep one of the two")
	}
	info, err := os.Stat(string(f.path))
	if err != nil {
		return "", errors.New(fileReason(err))
	}
	if info.Mode().Perm()&0o002 != 0 {
		return "", errors.New("names a file that every user may write; run chmod 0400 on it")
	}
	if info.Mode().Perm()&0o004 != 0 {
		warning = "names a file that every user may read; run chmod 0400 on it unless only this service can reach it"
	}
	value, err := readSecret(string(f.path))
	if err != nil {
		return "", err
	}
	*f.secret = secret{value: value, source: "file"}
	return warning, nil
}

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", errors.New(fileReason(err))
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return "", errors.New(fileReason(err))
	}
	if len(raw) > maxSecretFile {
		return "", errors.New("names a file that is too large for a secret (64 KiB at most)")
	}
	// Editors and `echo` end a file with a line end; it is not part of the secret.
	value := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if strings.TrimSpace(value) == "" {
		return "", errors.New("names an empty file; write the secret into it")
	}
	if err := checkSecret(value); err != nil {
		return "", errors.New("names a file whose content " + err.Error())
	}
	return value, nil
}

// fileReason says why a file cannot be used, without its path: a secret may have been put where a path belongs.
func fileReason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "names a file that does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "names a file that this user may not read"
	}
	return "names a file that cannot be read"
}
