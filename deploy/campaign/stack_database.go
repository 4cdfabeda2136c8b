package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/deploy/local"
)

// A worker keeps one PostgreSQL server over its rounds; each round has a database of its own, a copy of a migrated one.
const (
	databaseTemplate = "campaign_template"
	databaseRole     = "campaign_app" // the dispatchers': no superuser, so that limits hold for it
	databasePassword = "campaign-database"
)

type database struct {
	server *local.Postgres
	name   string // of the round's database
}

// startDatabase starts the server and migrates the template with the binary under test.
func startDatabase(ctx context.Context, binary string) (_ *database, err error) {
	d := &database{}
	if d.server, err = local.StartPostgres(ctx, local.PostgresOptions{InMemory: true}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.server.Close())
		}
	}()
	for _, sql := range []string{
		fmt.Sprintf("create role %s login password '%s'", databaseRole, databasePassword),
		fmt.Sprintf("create database %s owner %s", databaseTemplate, databaseRole),
	} {
		if err := d.exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, binary, "migrate")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ONEBELL_DATABASE_URL=" + d.urlOf(databaseTemplate)}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("onebell migrate: %w\n%s", err, out)
	}
	return d, nil
}

// fresh makes the round's database and drops the one of the round before.
func (d *database) fresh(ctx context.Context, name string) error {
	if d.name != "" {
		if err := d.exec(ctx, fmt.Sprintf("drop database %s with (force)", d.name)); err != nil {
			return err
		}
	}
	d.name = name
	return d.exec(ctx, fmt.Sprintf("create database %s template %s owner %s strategy file_copy", name, databaseTemplate, databaseRole))
}

// exec runs a statement as the superuser, outside the round's database.
func (d *database) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, d.server.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// connect opens a connection to the round's database as the superuser.
func (d *database) connect(ctx context.Context) (*pgx.Conn, error) {
	u, err := url.Parse(d.server.URL())
	if err != nil {
		return nil, err
	}
	u.Path = d.name
	return pgx.Connect(ctx, u.String())
}

// url is the round's database, as a dispatcher connects to it.
func (d *database) url() string { return d.urlOf(d.name) }

func (d *database) urlOf(name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(databaseRole, databasePassword), Host: d.server.Addr(), Path: name, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// close ends the server.
func (d *database) close() error { return d.server.Close() }
