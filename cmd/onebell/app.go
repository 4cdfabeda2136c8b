package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations"
	"github.com/onebell/onebell/retention"
)

// The store is what its users ask for.
var (
	_ dispatch.Store  = (*pgstore.Store)(nil)
	_ admin.Ledger    = (*pgstore.Store)(nil)
	_ retention.Store = (*pgstore.Store)(nil)
)

// App is one onebell process: broker, database, dispatcher and admin API, as far as its roles ask for them. Use it as
// newApp, Start, Stop.
type App struct {
	cfg      Config
	log      *slog.Logger
	registry *channels.Registry
	deriver  *dedup.Deriver
	windows  retention.Windows
	down     teardown

	store      *pgstore.Store
	nc         *nats.Conn
	metrics    *prometheus.Registry
	addr       string
	failed     chan error
	mu         sync.Mutex
	dispatcher *dispatch.Dispatcher // nil until it is up
}

// Bounds of one start and of the quick steps of a stop.
const (
	startLimit = 30 * time.Second
	quickLimit = 5 * time.Second
)

// newApp builds what needs no connection. Its error says what is wrong with the configuration.
func newApp(cfg Config, log *slog.Logger) (*App, error) {
	registry, err := buildRegistry(cfg)
	if err != nil {
		return nil, err
	}
	return newAppWith(cfg, registry, log)
}

// newAppWith is newApp with channels that the configuration does not name.
func newAppWith(cfg Config, registry *channels.Registry, log *slog.Logger) (*App, error) {
	windows, err := cfg.retention(registry)
	if err != nil {
		return nil, err
	}
	deriver, err := dedup.NewDeriver([]byte(cfg.Secret.value))
	if err != nil {
		return nil, configError("ONEBELL_SECRET " + err.Error())
	}
	return &App{
		cfg: cfg, log: log, registry: registry, deriver: deriver, windows: windows, metrics: prometheus.NewRegistry(), failed: make(chan error, 1),
	}, nil
}

// Start brings everything up. After an error everything is down again. ctx bounds the start.
func (a *App) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, a.down.run(context.WithoutCancel(ctx), a.log))
		}
	}()
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, start := range []func(context.Context) error{a.checkSchema, a.openStore, a.connect, a.startAdmin, a.startDispatcher, a.startPurger} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop takes everything down: no more requests, sends that have begun are finished and settled. Safe to call twice.
func (a *App) Stop(ctx context.Context) error { return a.down.run(ctx, a.log) }

// Addr returns the address that the admin API listens on; "" without the role.
func (a *App) Addr() string { return a.addr }

// Failed delivers the reason when the process cannot go on.
func (a *App) Failed() <-chan error { return a.failed }

// grace is how long a drain waits for sends: as long as the longest attempt may take, so that none is cut off.
func (a *App) grace() time.Duration {
	longest := 5 * time.Second
	for _, e := range a.registry.All() {
		longest = max(longest, e.Channel.Contract().AttemptTimeout)
	}
	return longest
}

// checkSchema refuses a database that this binary cannot work on; migrating is a step of its own, not one of every start.
func (a *App) checkSchema(ctx context.Context) error { return checkSchema(ctx, a.cfg, a.log) }

func checkSchema(ctx context.Context, cfg Config, log *slog.Logger) error {
	err := migrations.Check(ctx, cfg.DatabaseURL.value, log)
	if err == nil || errors.Is(err, migrations.ErrOlder) || errors.Is(err, migrations.ErrNewer) || errors.Is(err, migrations.ErrServer) {
		return err
	}
	return fmt.Errorf("the database at %s does not answer; check ONEBELL_DATABASE_URL: %w", hosts(cfg.DatabaseURL.value), err)
}

func (a *App) openStore(ctx context.Context) (err error) {
	if a.store, err = pgstore.Open(ctx, a.cfg.DatabaseURL.value, pgstore.Options{Log: a.log}); err != nil {
		return err
	}
	a.down.push("database", quickLimit, func(context.Context) error { a.store.Close(); return nil })
	return nil
}

func (a *App) connect(context.Context) (err error) {
	if a.nc, err = connectBroker(a.cfg, dispatcherUser, a.log, a.fail); err != nil {
		return err
	}
	a.down.push("broker", quickLimit, func(context.Context) error { closeBroker(a.nc); return nil })
	return nil
}

// fail ends the process: a connection that was given up for good does not come back by itself.
func (a *App) fail(err error) {
	select {
	case a.failed <- fmt.Errorf("the broker closed the connection for good: %s", brokerReason(err)):
	default:
	}
}

func (a *App) startAdmin(ctx context.Context) error {
	if !a.cfg.has("admin") {
		return nil
	}
	var tokens *admin.Tokens
	if a.cfg.AdminTokensFile != "" {
		var err error
		if tokens, err = admin.OpenTokens(string(a.cfg.AdminTokensFile)); err != nil {
			return fmt.Errorf("ONEBELL_ADMIN_TOKENS_FILE: %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", string(a.cfg.AdminAddr))
	if err != nil {
		return fmt.Errorf("ONEBELL_ADMIN_ADDR: cannot listen there; free the port or choose another: %w", err)
	}
	handler, err := admin.New(admin.Options{
		Addr: string(a.cfg.AdminAddr), Version: version(), Ledger: a.store, Channels: a.registry, Tokens: tokens,
		RecipientHashes: a.recipientHashes, Ready: a.ready, Gatherer: a.metrics, Registerer: a.metrics, Log: a.log,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := admin.NewServer(handler, a.log)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the admin API ended", "error", err)
		}
	}()
	a.addr = listener.Addr().String()
	a.down.push("admin API", quickLimit, server.Shutdown)
	return nil
}

// recipientForms returns the forms in which a recipient may be stored: as given, and as each channel normalises it.
func (a *App) recipientForms(recipient string) []string {
	forms := []string{recipient}
	for _, in := range a.cfg.instances {
		e, ok := a.registry.Lookup(in.name)
		if !ok {
			continue
		}
		if normal, err := e.Channel.Validate(recipient, in.env.sample()); err == nil && !slices.Contains(forms, normal) {
			forms = append(forms, normal)
		}
	}
	return forms
}

// recipientHashes returns the hashes of those forms.
func (a *App) recipientHashes(recipient string) [][]byte {
	var hashes [][]byte
	for _, form := range a.recipientForms(recipient) {
		hashes = append(hashes, a.deriver.RecipientHash(form))
	}
	return hashes
}

// ready returns why this process should not be given work.
func (a *App) ready(context.Context) []string {
	if !a.cfg.has("intake") && !a.cfg.has("dispatch") {
		return nil
	}
	a.mu.Lock()
	d := a.dispatcher
	a.mu.Unlock()
	if d == nil {
		return []string{"the dispatcher is starting"}
	}
	return d.Ready()
}

func (a *App) startDispatcher(ctx context.Context) error {
	if !a.cfg.has("intake") && !a.cfg.has("dispatch") {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "onebell"
	}
	d, err := dispatch.New(dispatch.Config{
		Owner: host, Intake: a.cfg.has("intake"), Dispatch: a.cfg.has("dispatch"), Horizon: time.Duration(a.cfg.Horizon),
		Deriver: a.deriver, Registry: a.registry, Store: a.store, NATS: a.nc, CreateStreams: true, Log: a.log, Metrics: a.metrics, Grace: a.grace(),
	})
	if err != nil {
		return err
	}
	if err := d.Start(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	a.dispatcher = d
	a.mu.Unlock()
	a.down.push("dispatcher", a.grace()+30*time.Second, d.Drain)
	return nil
}

// startPurger starts what forgets, beside the dispatcher that sends.
func (a *App) startPurger(context.Context) error {
	if !a.cfg.has("dispatch") {
		return nil
	}
	p, err := retention.New(retention.Config{Owner: a.dispatcher.Owner(), Windows: a.windows, Store: a.store, Log: a.log, Metrics: a.metrics})
	if err != nil {
		return err
	}
	p.Start()
	a.down.push("purger", quickLimit, p.Stop)
	return nil
}
