package main

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strings"
)

// show writes the effective configuration to the log, secrets struck out, so that what a start really runs with can be read.
func (c *Config) show(ctx context.Context, log *slog.Logger) {
	vars, err := c.variables()
	if err != nil {
		log.ErrorContext(ctx, "the configuration cannot be listed", "error", err)
		return
	}
	attrs := make([]slog.Attr, 0, len(vars))
	for _, v := range vars {
		if v.Value == "" {
			continue
		}
		attrs = append(attrs, slog.String(strings.TrimPrefix(v.Name, "ONEBELL_"), c.shown(v)))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "configuration", attrs...)
	for _, w := range c.warnings {
		log.WarnContext(ctx, w)
	}
}

// shown returns what may be seen of a variable's value: of addresses with a password in them, the hosts.
func (c *Config) shown(v variable) string {
	switch {
	case v.Name == "ONEBELL_NATS_URL":
		return hosts(c.NatsURL.value)
	case v.Name == "ONEBELL_DATABASE_URL":
		return hosts(c.DatabaseURL.value) + " " + v.Value
	case strings.HasSuffix(v.Name, "_USERNAME"):
		return "(set)"
	}
	return v.Value
}

// hosts returns the hosts of a list of URLs, without user, password, path and query.
func hosts(urls string) string {
	var out []string
	for item := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(item))
		if err != nil || u.Host == "" {
			return ""
		}
		out = append(out, u.Scheme+"://"+u.Host)
	}
	return strings.Join(out, ",")
}

// newLogger returns the logger that the configuration asks for. It writes to standard error: standard output is for results.
func newLogger(c Config, w *os.File) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo // checked before; only an unread configuration comes here
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" || c.LogFormat == "" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// envReference lists every variable there is, for the documents: those of a channel type under a placeholder's name.
func envReference() (service []variable, perType map[string][]variable, err error) {
	if service, err = describe("ONEBELL", &Config{}); err != nil {
		return nil, nil, err
	}
	perType = map[string][]variable{}
	for name, make := range channelTypes() {
		vars, err := describe(channelPrefix+"<NAME>", make())
		if err != nil {
			return nil, nil, err
		}
		perType[name] = vars
	}
	return service, perType, nil
}
