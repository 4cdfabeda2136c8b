package local

import (
	"context"
	"testing"
	"time"
)

func TestStandbyFollowsAndIsPromoted(t *testing.T) {
	t.Parallel()
	primary := start(t, PostgresOptions{InMemory: true})
	number(t, primary.URL(), "create table kept (n int)", "insert into kept values (7) returning n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	standby, err := primary.Standby(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, standby) })
	if standby.Addr() == primary.Addr() {
		t.Errorf("both listen on %s", primary.Addr())
	}

	// From here on nothing commits on the primary that is not on the standby.
	number(t, primary.URL(), "alter system set synchronous_standby_names = '"+StandbyName+"'", "select pg_reload_conf()::int")
	for deadline := time.Now().Add(patience); ; {
		if number(t, primary.URL(), "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the standby is not synchronous")
		}
		time.Sleep(20 * time.Millisecond)
	}
	number(t, primary.URL(), "insert into kept values (8) returning n")
	if got := number(t, standby.URL(), "select count(*) from kept where pg_is_in_recovery()"); got == 0 {
		t.Error("the standby does not follow, or takes writes")
	}

	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if got := number(t, standby.URL(), "insert into kept values (9)", "select sum(n) from kept"); got != 24 {
		t.Errorf("the rows sum up to %d, want 24", got)
	}
}
