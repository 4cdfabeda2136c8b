package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// inboxPrefix is where replies to this user go; the broker's permissions let nobody else listen there.
func inboxPrefix(user string) string { return "_INBOX." + user }

// dispatcherUser is the dispatchers' name in the shipped broker configuration.
const dispatcherUser = "dispatcher"

// connectBroker connects as user. lost is called once when the connection is given up for good.
func connectBroker(c Config, user string, log *slog.Logger, lost func(error)) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name("onebell " + user),
		nats.CustomInboxPrefix(inboxPrefix(user)),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond),
		nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("broker error", "error", err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn("broker connection lost", "error", err) }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("broker connection restored") }),
		nats.ClosedHandler(func(nc *nats.Conn) {
			if lost != nil {
				lost(nc.LastError())
			}
		}),
	}
	if c.NatsCredsFile != "" {
		opts = append(opts, nats.UserCredentials(string(c.NatsCredsFile)))
	}
	if c.NatsCAFile != "" {
		opts = append(opts, nats.RootCAs(string(c.NatsCAFile)))
	}
	nc, err := nats.Connect(c.NatsURL.value, opts...)
	if err != nil {
		return nil, fmt.Errorf("the broker at %s: %s", hosts(c.NatsURL.value), brokerReason(err))
	}
	return nc, nil
}

// closeBroker closes a connection on purpose: nobody needs to hear that it is lost.
func closeBroker(nc *nats.Conn) {
	nc.SetDisconnectErrHandler(nil)
	nc.SetClosedHandler(nil)
	nc.Close()
}

// brokerReason says why a connection failed, and what to do. The library's own errors can hold the address with its password.
func brokerReason(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return "it refuses this user; check the user and password in ONEBELL_NATS_URL, or ONEBELL_NATS_CREDS_FILE"
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "nothing answers there; start it, or correct ONEBELL_NATS_URL"
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return "one side wants TLS and the other does not; use tls:// in ONEBELL_NATS_URL, or set up TLS there"
	}
	return "the connection cannot be made; check ONEBELL_NATS_URL, ONEBELL_NATS_CREDS_FILE and ONEBELL_NATS_CA_FILE"
}
