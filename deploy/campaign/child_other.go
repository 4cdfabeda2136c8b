//go:build !linux

package main

import "syscall"

func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
