//go:build unix && !linux

package local

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child to its parent. A killed onebell leaves its PostgreSQL behind.
func dieWithParent(*syscall.SysProcAttr) {}

func memoryFolder() string { return "" }
