package main

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Ranges of settings that have no natural end.
const (
	minSecret  = 32 // bytes
	minHorizon = time.Minute
	maxHorizon = 366 * 24 * time.Hour
)

// check looks at the settings together.
func (c *Config) check(n need, p *problems) {
	c.checkBroker(p)
	c.checkDatabase(n, p)
	c.checkAdmin(n, p)
	if s := c.Secret.value; s != "" && len(s) < minSecret {
		p.add("ONEBELL_SECRET", "is too short; use 32 bytes or more, as from `openssl rand -base64 48`")
	} else if s == "" && n&needSecret != 0 {
		p.add("ONEBELL_SECRET", "is required; set it (or ONEBELL_SECRET_FILE) to 32 random bytes or more, as from `openssl rand -base64 48`")
	}
	for _, role := range c.Roles {
		oneOf(p, "ONEBELL_ROLES", role, "intake", "dispatch", "admin")
	}
	c.checkLog(p)
	if h := time.Duration(c.Horizon); h < minHorizon || h > maxHorizon {
		p.add("ONEBELL_HORIZON", "is out of range; use 1m to 8784h")
	}
	if c.OTLPEndpoint != "" {
		p.add("ONEBELL_OTLP_ENDPOINT", "is not in this version; unset it")
	}
	if c.CallbackAddr != "" {
		p.add("ONEBELL_CALLBACK_ADDR", "is not in this version; unset it")
	}
	c.checkChannels(n, p)
}

func (c *Config) checkLog(p *problems) {
	oneOf(p, "ONEBELL_LOG_LEVEL", string(c.LogLevel), "debug", "info", "warn", "error")
	if c.LogFormat != "" {
		oneOf(p, "ONEBELL_LOG_FORMAT", string(c.LogFormat), "text", "json")
	}
}

func (c *Config) checkChannels(n need, p *problems) {
	if len(c.instances) == 0 && n&needChannels != 0 {
		p.add("ONEBELL_CHANNELS", "is required; name the instances, as in mail:smtp,hooks:webhook")
	}
	for _, in := range c.instances {
		in.env.check(in.prefix, p)
		if in.typ == "sandbox" && n&needChannels != 0 && !slices.Contains(c.AllowSandbox, in.name) {
			p.add("ONEBELL_CHANNELS", "makes instance "+in.name+" a sandbox, which sends nothing; name it in ONEBELL_ALLOW_SANDBOX if that is meant")
		}
	}
	for _, name := range c.AllowSandbox {
		if !slices.ContainsFunc(c.instances, func(in instance) bool { return in.name == name && in.typ == "sandbox" }) {
			p.add("ONEBELL_ALLOW_SANDBOX", "names something that is not a sandbox instance of ONEBELL_CHANNELS; name those alone")
		}
	}
}

func (c *Config) checkBroker(p *problems) {
	for server := range strings.SplitSeq(c.NatsURL.value, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			p.add("ONEBELL_NATS_URL", "is not a list of broker addresses; write them as in nats://broker:4222 (schemes nats, tls, ws, wss)")
			return
		}
	}
}

func (c *Config) checkDatabase(n need, p *problems) {
	if c.DatabaseURL.value == "" {
		if n&needDatabase != 0 {
			p.add("ONEBELL_DATABASE_URL", "is required; set it (or ONEBELL_DATABASE_URL_FILE), as in postgres://onebell@db:5432/onebell")
		}
		return
	}
	// pgx's own error quotes the URL, so only the fact that it does not parse is passed on.
	if _, err := pgxpool.ParseConfig(c.DatabaseURL.value); err != nil {
		p.add("ONEBELL_DATABASE_URL", "is not a PostgreSQL address; write it as in postgres://user:password@host:5432/database, with reserved characters of the password percent-encoded")
	}
}

func (c *Config) checkAdmin(n need, p *problems) {
	if n&needChannels == 0 || !c.has("admin") || c.AdminTokensFile != "" || loopback(string(c.AdminAddr)) {
		return
	}
	p.add("ONEBELL_ADMIN_TOKENS_FILE", "is required while ONEBELL_ADMIN_ADDR is not a loopback address; name a file with one token a line, or listen on 127.0.0.1")
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// oneOf adds a problem unless value is one of the allowed ones.
func oneOf(p *problems, name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		p.add(name, "must be "+strings.Join(allowed[:len(allowed)-1], ", ")+" or "+allowed[len(allowed)-1])
	}
}
