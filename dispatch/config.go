package dispatch

import (
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
)

// Config is what a Dispatcher works with. Everything is required unless it says otherwise.
type Config struct {
	Owner         string // prefix of the owner's name, for people: the host. New makes it unique per process start. Optional
	Intake        bool   // takes requests in, and answers submit, status and cancel
	Dispatch      bool   // sends, looks after leases, relays events
	Horizon       time.Duration
	Deriver       *dedup.Deriver
	Registry      *channels.Registry
	Store         Store
	NATS          *nats.Conn            // stays the caller's: Drain does not close it
	CreateStreams bool                  // streams and consumer are created where they are missing
	Log           *slog.Logger          // never gets recipients, contents or secrets
	Metrics       prometheus.Registerer // optional
	Grace         time.Duration         // what Drain gives running sends to end; optional, default 20 s
}

const (
	defaultGrace = 20 * time.Second
	future       = 5 * time.Minute // how far ahead of the database's clock an occurred_at may be
)

func (c Config) check() error {
	switch {
	case c.Deriver == nil, c.Registry == nil, c.Store == nil, c.NATS == nil, c.Log == nil:
		return errors.New("dispatch: the configuration lacks a deriver, registry, store, connection or log")
	case !c.Intake && !c.Dispatch:
		return errors.New("dispatch: neither intake nor dispatch is asked for; set ONEBELL_ROLES")
	case c.Horizon <= 0:
		return errors.New("dispatch: the horizon must be positive; set ONEBELL_HORIZON")
	}
	return nil
}
