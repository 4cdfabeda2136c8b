package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// deployment is one class of deployment, and what happens to it.
type deployment struct {
	name    string
	class   string
	fault   string // the sentence of the table
	standby replication
	cluster bool
	links   bool // dispatchers reach broker and database through links that can be cut
	strike  func(context.Context, *site) error
	retold  bool // producers tell everything a second time afterwards, as those do that saw no outcome
	lossy   bool // what the database knew last is lost, and with it what the checks compare: its counts are shown, nothing is held against it
	once    bool // lossy, and still nothing may be seen twice
}

// replication is how a standby follows.
type replication string

// Ways to follow.
const (
	asynchronous replication = "asynchronous"
	synchronous  replication = "synchronous"
)

// deployments are the rows of the table.
var deployments = []deployment{
	{
		name: "single", class: "single node", fault: "PostgreSQL killed and restarted, then the broker",
		strike: inTurn(killDatabase, killBroker),
	},
	{
		name: "cut-database", class: "single node", fault: "a dispatcher cut off from the database for longer than a lease", links: true,
		strike: cutOff(false, true),
	},
	{
		name: "cut-broker", class: "single node", fault: "a dispatcher cut off from the broker for longer than a lease", links: true,
		strike: cutOff(true, false),
	},
	{
		name: "cut-both", class: "single node", fault: "a dispatcher cut off from both for longer than a lease", links: true,
		strike: cutOff(true, true),
	},
	{
		name: "cluster", class: "three brokers", fault: "the broker that leads the requests killed, and restarted later", cluster: true,
		strike: killLeader,
	},
	{
		name: "synchronous", class: "synchronous standby", fault: "the primary killed, the standby promoted", standby: synchronous,
		strike: promote, retold: true,
	},
	{
		name: "asynchronous", class: "asynchronous standby", fault: "the primary killed with 3 s that the standby lacks, the standby promoted", standby: asynchronous,
		strike: inTurn(lagBehind, promote), retold: true, lossy: true,
	},
	{
		name: "asynchronous-marked", class: "asynchronous standby", fault: "the same, with `onebell restore-mark` before dispatchers start again", standby: asynchronous,
		strike: inTurn(lagBehind, promoteMarked), retold: true, lossy: true, once: true,
	},
}

func inTurn(strikes ...func(context.Context, *site) error) func(context.Context, *site) error {
	return func(ctx context.Context, s *site) error {
		for _, strike := range strikes {
			if err := strike(ctx, s); err != nil {
				return err
			}
			if !pause(ctx, 2*time.Second) {
				return ctx.Err()
			}
		}
		return nil
	}
}

func killDatabase(ctx context.Context, s *site) error {
	s.record.add("F4 PostgreSQL killed")
	if err := s.primary.Kill(); err != nil {
		return err
	}
	return s.primary.Restart(ctx)
}

func killBroker(ctx context.Context, s *site) error {
	s.record.add("F8 the broker killed")
	s.broker.kill()
	if !pause(ctx, time.Second) {
		return ctx.Err()
	}
	return s.broker.start()
}

// cutOff takes the network from one dispatcher: nothing is refused, nobody answers.
func cutOff(broker, database bool) func(context.Context, *site) error {
	return func(ctx context.Context, s *site) error {
		var links []*link
		if broker {
			links = append(links, s.brokers[0])
		}
		if database {
			links = append(links, s.databases[0])
		}
		s.record.add("F9 cut off")
		for _, k := range links {
			k.hold(towards)
			k.hold(back)
		}
		whole := pause(ctx, s.lease+5*time.Second)
		for _, k := range links {
			k.release(towards)
			k.release(back)
		}
		s.record.add("F9 connected again")
		if !whole {
			return ctx.Err()
		}
		return nil
	}
}

func killLeader(ctx context.Context, s *site) error {
	leader, err := s.leader(ctx)
	for deadline := time.Now().Add(30 * time.Second); err != nil; leader, err = s.leader(ctx) { // an election may be under way
		if time.Now().After(deadline) || !pause(ctx, time.Second) {
			return err
		}
	}
	s.record.add("F8 the leader killed")
	leader.kill()
	for _, b := range s.cluster {
		if b != leader {
			s.broker = b // whom the campaign itself asks
		}
	}
	if !pause(ctx, 5*time.Second) {
		return ctx.Err()
	}
	return leader.start()
}

// lagBehind freezes the process that receives the primary's log and lets the primary work on.
func lagBehind(ctx context.Context, s *site) error {
	conn, err := pgx.Connect(ctx, s.standby.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var pid int
	if err := conn.QueryRow(ctx, "select pid from pg_stat_wal_receiver").Scan(&pid); err != nil {
		return fmt.Errorf("the standby receives nothing: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	if !pause(ctx, 3*time.Second) {
		return ctx.Err()
	}
	if err := s.primary.Kill(); err != nil {
		return err
	}
	// It ends before it reads what still stands in its socket: that is gone with the primary's host.
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGCONT)
}

// promote makes the standby the primary. Dispatchers find it by themselves.
func promote(ctx context.Context, s *site) error {
	s.record.add("F5 failover")
	if err := s.primary.Kill(); err != nil {
		return err
	}
	if err := s.standby.Promote(ctx); err != nil {
		return err
	}
	s.worker.db.server = s.standby
	return nil
}

// promoteMarked is the runbook's way: dispatchers are stopped first, and started after the mark.
func promoteMarked(ctx context.Context, s *site) error {
	for _, place := range s.slots {
		place.end()
	}
	if err := promote(ctx, s); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; { // the leases of the dead dispatchers have to end first
		mark := exec.CommandContext(ctx, s.worker.binary, "restore-mark", "--gap", "refuse", "--reason", "failover")
		mark.Env = s.slots[0].env
		out, err := mark.CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(deadline) || !pause(ctx, time.Second) {
			return fmt.Errorf("onebell restore-mark: %w\n%s", err, out)
		}
	}
	return s.serve(ctx)
}
