package local

import "syscall"

// dieWithParent has the kernel stop PostgreSQL (its immediate way) when the thread that started it ends; see process.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// memoryFolder is a folder in memory with room for a database, "" where there is none. Containers often have one of only
// 64 MiB.
func memoryFolder() string {
	const dir, room = "/dev/shm", 1 << 30
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil || stat.Bavail*uint64(stat.Bsize) < room {
		return ""
	}
	return dir
}
