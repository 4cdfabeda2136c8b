package local

import "syscall"

// dieWithParent has the kernel stop PostgreSQL (its immediate way) when the thread that started it ends; see process.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
