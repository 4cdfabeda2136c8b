package local

import (
	"context"
	"testing"
)

func TestBackupIsOldTruth(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{InMemory: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.RestoreBackup(ctx); err == nil {
		t.Error("restored a backup that was never taken")
	}
	number(t, p.URL(), "create table kept (n int)", "insert into kept values (7) returning n")
	if err := p.Backup(ctx); err != nil {
		t.Fatal(err)
	}
	number(t, p.URL(), "insert into kept values (8) returning n")
	if err := p.RestoreBackup(ctx); err != nil {
		t.Fatal(err)
	}
	if got := number(t, p.URL(), "select sum(n) from kept"); got != 7 {
		t.Errorf("the rows sum up to %d, want 7", got)
	}
}
