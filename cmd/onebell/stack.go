package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/migrations"
)

// stack is broker and database on this machine, migrated, for the commands that need nothing else.
type stack struct {
	broker      *local.NATS
	databaseURL string
	secret      secret
	down        teardown
}

// stackOptions says where a stack keeps its data and how hard it writes.
type stackOptions struct {
	databaseURL string // used in place of a database of its own
	data        string // folder that stays; "": temporary
	durable     bool   // every write reaches the disk
	usual       bool   // the usual ports where they are free
}

// localPayload is what a stack's broker takes, in bytes: as in deploy/nats-server.conf above the stream's limit, so that a request that
// is too large gets an answer instead of costing its producer the connection.
const localPayload = 2 << 20

// startStack brings a stack up. After an error everything is down again.
func startStack(ctx context.Context, o stackOptions, log *slog.Logger) (_ *stack, err error) {
	s := &stack{databaseURL: o.databaseURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.down.run(context.WithoutCancel(ctx), log))
		}
	}()
	if s.secret, err = localSecret(o.data); err != nil {
		return nil, err
	}
	if err := s.startDatabase(ctx, o, log); err != nil {
		return nil, err
	}
	if err := s.startBroker(o, log); err != nil {
		return nil, err
	}
	if _, err := migrations.Up(ctx, s.databaseURL, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stack) startDatabase(ctx context.Context, o stackOptions, log *slog.Logger) error {
	if s.databaseURL != "" {
		return nil
	}
	port, err := o.port(5432)
	if err != nil {
		return err
	}
	db, err := local.StartPostgres(ctx, local.PostgresOptions{Dir: o.folder("postgres"), Durable: o.durable, Port: port, Log: log})
	if err != nil {
		return err
	}
	s.databaseURL = db.URL()
	s.down.push("database", 30*time.Second, func(context.Context) error { return db.Close() })
	return nil
}

func (s *stack) startBroker(o stackOptions, log *slog.Logger) error {
	port, err := o.port(4222)
	if err != nil {
		return err
	}
	if s.broker, err = local.StartNATS(local.NATSOptions{Dir: o.folder("nats"), Durable: o.durable, Port: port, MaxPayload: localPayload, Log: log}); err != nil {
		return err
	}
	s.down.push("broker", 30*time.Second, func(context.Context) error { return s.broker.Close() })
	return nil
}

// port returns the usual port if it is wanted and free, else 0 for any.
func (o stackOptions) port(usual int) (int, error) {
	if !o.usual {
		return 0, nil
	}
	return local.FreePort(usual)
}

func (o stackOptions) folder(name string) string {
	if o.data == "" {
		return ""
	}
	return filepath.Join(o.data, name)
}

// localSecret returns the secret that a data folder keeps, or a new one: keys derived with another one would not be known again.
func localSecret(data string) (secret, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	fresh := secret{value: hex.EncodeToString(random[:]), source: "file"}
	if data == "" {
		return fresh, nil
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return secret{}, fmt.Errorf("--data: %w", err)
	}
	path := filepath.Join(data, "secret")
	value, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, os.WriteFile(path, []byte(fresh.value), 0o600)
	}
	if err == nil && len(value) < minSecret {
		err = fmt.Errorf("--data: %s holds no secret; remove the folder to start anew", path)
	}
	return secret{value: string(value), source: "file"}, err
}

// config returns a configuration on this stack with the given channels; fill sets what the environment does not decide.
func (s *stack) config(channels list, fill func(*Config)) (Config, error) {
	return loadWith(serveNeeds, channels, func(c *Config) {
		c.NatsURL = secret{value: s.broker.URL(), source: "local"}
		c.NatsURLFile, c.NatsCredsFile, c.NatsCAFile = "", "", ""
		c.DatabaseURL, c.DatabaseURLFile = secret{value: s.databaseURL, source: "local"}, ""
		c.Secret, c.SecretFile = s.secret, ""
		c.Roles = list{"intake", "dispatch", "admin"}
		c.AdminAddr, c.AdminTokensFile = "127.0.0.1:0", ""
		for _, in := range c.instances {
			if in.typ == "sandbox" {
				c.AllowSandbox = append(c.AllowSandbox, in.name)
			}
		}
		fill(c)
	})
}

func localAddr(port int) hostPort { return hostPort("127.0.0.1:" + strconv.Itoa(port)) }
