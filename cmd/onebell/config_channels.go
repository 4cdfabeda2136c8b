package main

import (
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/fcm"
	"github.com/onebell/onebell/channels/sandbox"
	"github.com/onebell/onebell/channels/smtp"
	"github.com/onebell/onebell/channels/webhook"
)

// channelEnv is the variables of one channel type, read for one instance.
type channelEnv interface {
	// settings returns the limits that every type has.
	settings() channels.Settings
	// secretFiles lists the secrets that may stand in files; prefix begins the names of the instance's variables.
	secretFiles(prefix string) []secretFile
	// check adds what is wrong with the variables.
	check(prefix string, p *problems)
	// sample returns the smallest content that the type takes.
	sample() json.RawMessage
	// build makes the channel.
	build() (channels.Channel, error)
}

// Limits are the variables that every channel type has. It is exported because envconfig does not look into an embedded struct
// that is not.
type Limits struct {
	Concurrency count `default:"16" desc:"simultaneous sends"`
	Rate        rate  `desc:"sends per second; no limit when unset"`
	MaxAttempts count `split_words:"true" default:"50" desc:"attempts before an intent ends as exhausted"`
	MaxAge      span  `split_words:"true" default:"24h" desc:"time after admission (or not_before) when retrying ends"`
	OnUnknown   word  `split_words:"true" default:"resend" desc:"replaceable channels: resend or hold after an ambiguous send"`
}

func (l *Limits) settings() channels.Settings {
	return channels.Settings{
		Concurrency: int(l.Concurrency), Rate: float64(l.Rate), MaxAttempts: int(l.MaxAttempts),
		MaxAge: time.Duration(l.MaxAge), OnUnknown: channels.OnUnknown(l.OnUnknown),
	}
}

// Ranges of the limits.
const (
	maxConcurrency = 1024
	maxTimeout     = 15 * time.Minute
)

func (l *Limits) checkLimits(prefix string, timeout span, p *problems) {
	if l.Concurrency > maxConcurrency {
		p.add(prefix+"_CONCURRENCY", "is out of range; use 1 to 1024")
	}
	if d := time.Duration(timeout); d < 100*time.Millisecond || d > maxTimeout {
		p.add(prefix+"_TIMEOUT", "is out of range; use 100ms to 15m")
	}
	oneOf(p, prefix+"_ON_UNKNOWN", string(l.OnUnknown), string(channels.OnUnknownResend), string(channels.OnUnknownHold))
}

// smtpEnv is the variables of type smtp.
type smtpEnv struct {
	Limits
	Timeout           span     `default:"3m" desc:"longest attempt, from its first byte to its last"`
	Addr              hostPort `desc:"mail server, as in mail.example.org:587; required"`
	From              word     `desc:"sender of every mail; required"`
	Username          word     `desc:"login; none when unset"`
	Password          secret   `desc:"password of the login"`
	PasswordFile      filePath `split_words:"true" desc:"file that holds the password"`
	TLS               word     `default:"mandatory" desc:"mandatory, opportunistic or none"`
	Hello             word     `desc:"name given in EHLO; this host's name when unset"`
	IdempotencyHeader word     `split_words:"true" desc:"header in which the relay takes a key that it deduplicates on; makes the channel keyed"`
	KeyWindow         span     `split_words:"true" desc:"how long the relay remembers a key; required with IDEMPOTENCY_HEADER"`
}

func (e *smtpEnv) secretFiles(prefix string) []secretFile {
	return []secretFile{{prefix + "_PASSWORD", &e.Password, e.PasswordFile}}
}

func (e *smtpEnv) sample() json.RawMessage { return json.RawMessage(`{"subject":"-","text":"-"}`) }

func (e *smtpEnv) check(prefix string, p *problems) {
	e.checkLimits(prefix, e.Timeout, p)
	oneOf(p, prefix+"_TLS", string(e.TLS), string(smtp.TLSMandatory), string(smtp.TLSOpportunistic), string(smtp.TLSNone))
	if e.Addr == "" {
		p.add(prefix+"_ADDR", "is required; name the mail server, as in mail.example.org:587")
	}
	if e.From == "" {
		p.add(prefix+"_FROM", "is required; set the sender's address, as in receipts@example.org")
	}
	if e.TLS == word(smtp.TLSNone) && e.Password.value != "" && !loopback(string(e.Addr)) {
		p.add(prefix+"_TLS", "is none, which would send the password in the clear; use mandatory")
	}
}

// build makes the channel; what is left to check of its variables, the adapter checks.
func (e *smtpEnv) build() (channels.Channel, error) {
	return smtp.New(smtp.Config{
		Addr: string(e.Addr), From: string(e.From), Username: string(e.Username), Password: smtp.Secret(e.Password.value), TLS: smtp.TLSMode(e.TLS),
		Helo: string(e.Hello), IdempotencyHeader: string(e.IdempotencyHeader), KeyWindow: time.Duration(e.KeyWindow), Timeout: time.Duration(e.Timeout),
		MaxIdle: int(e.Concurrency),
	})
}

// webhookEnv is the variables of type webhook.
type webhookEnv struct {
	Limits
	Timeout           span     `default:"30s" desc:"longest attempt, from its first byte to its last"`
	Dedup             word     `default:"none" desc:"what receivers deduplicate on: none, idempotency-key or webhook-id"`
	KeyWindow         span     `split_words:"true" desc:"how long receivers remember a key; required unless DEDUP is none"`
	SigningSecret     secret   `split_words:"true" desc:"Standard Webhooks secret (whsec_ and base64); several with blanks between them while rotating"`
	SigningSecretFile filePath `split_words:"true" desc:"file that holds the signing secret"`
	AllowPrivate      list     `split_words:"true" desc:"private networks (CIDR) that hooks may reach; none when unset"`
	LookupURL         word     `split_words:"true" desc:"where to ask what became of a key, with {key} in its place; no look-up when unset"`
}

func (e *webhookEnv) secretFiles(prefix string) []secretFile {
	return []secretFile{{prefix + "_SIGNING_SECRET", &e.SigningSecret, e.SigningSecretFile}}
}

func (e *webhookEnv) sample() json.RawMessage { return json.RawMessage(`{"type":"sample","data":{}}`) }

func (e *webhookEnv) check(prefix string, p *problems) {
	e.checkLimits(prefix, e.Timeout, p)
	oneOf(p, prefix+"_DEDUP", string(e.Dedup), string(webhook.DedupNone), string(webhook.DedupIdempotencyKey), string(webhook.DedupWebhookID))
	if (e.Dedup == word(webhook.DedupNone)) != (e.KeyWindow == 0) {
		p.add(prefix+"_KEY_WINDOW", "and _DEDUP go together; say how long receivers remember a key, or set _DEDUP to none and unset it")
	}
	if _, err := networks(e.AllowPrivate); err != nil {
		p.add(prefix+"_ALLOW_PRIVATE", "has an item that is not a network; write networks as in 10.1.0.0/16")
	}
}

// build makes the channel; what is left to check of its variables, the adapter checks.
func (e *webhookEnv) build() (channels.Channel, error) {
	allow, err := networks(e.AllowPrivate)
	if err != nil {
		return nil, err
	}
	return webhook.New(webhook.Config{
		Dedup: webhook.Dedup(e.Dedup), KeyWindow: time.Duration(e.KeyWindow), SigningSecrets: strings.Fields(e.SigningSecret.value),
		AllowPrivate: allow, LookupURL: string(e.LookupURL), Timeout: time.Duration(e.Timeout),
	})
}

func networks(items list) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, item := range items {
		n, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, err
		}
		out = append(out, n.Masked())
	}
	return out, nil
}

// fcmEnv is the variables of type fcm.
type fcmEnv struct {
	Limits
	Timeout         span     `default:"30s" desc:"longest attempt, from fetching an access token to the last byte of the reply"`
	CredentialsFile filePath `split_words:"true" desc:"a service account's key in JSON, read again when it is replaced; required"`
	ProjectID       word     `split_words:"true" desc:"Firebase project; the credentials file's when unset"`
	Endpoint        word     `desc:"address in place of https://fcm.googleapis.com"`

	key secret // what the file held at the start; the adapter reads it by itself, and again when it is replaced
}

func (e *fcmEnv) secretFiles(prefix string) []secretFile {
	return []secretFile{{prefix + "_CREDENTIALS", &e.key, e.CredentialsFile}}
}

func (e *fcmEnv) sample() json.RawMessage { return json.RawMessage(`{"title":"-"}`) }

func (e *fcmEnv) check(prefix string, p *problems) {
	e.checkLimits(prefix, e.Timeout, p)
	if e.CredentialsFile == "" {
		p.add(prefix+"_CREDENTIALS_FILE", "is required; name the key file of a service account, as the Firebase console makes it")
	}
}

// build makes the channel; what is left to check of its variables, the adapter checks.
func (e *fcmEnv) build() (channels.Channel, error) {
	return fcm.New(fcm.Config{
		CredentialsFile: string(e.CredentialsFile), ProjectID: string(e.ProjectID), Endpoint: string(e.Endpoint), Timeout: time.Duration(e.Timeout),
	})
}

// sandboxEnv is the variables of type sandbox.
type sandboxEnv struct {
	Limits
	Timeout   span `default:"30s" desc:"longest attempt"`
	Guarantee word `default:"duplicate-visible" desc:"what it pretends to promise: keyed, replaceable or duplicate-visible"`
	KeyWindow span `split_words:"true" default:"1h" desc:"how long it pretends to remember a key, when keyed"`
}

func (e *sandboxEnv) secretFiles(string) []secretFile { return nil }

func (e *sandboxEnv) sample() json.RawMessage { return json.RawMessage(`{}`) }

func (e *sandboxEnv) check(prefix string, p *problems) {
	e.checkLimits(prefix, e.Timeout, p)
	oneOf(p, prefix+"_GUARANTEE", string(e.Guarantee), string(channels.Keyed), string(channels.Replaceable), string(channels.DuplicateVisible))
}

func (e *sandboxEnv) build() (channels.Channel, error) {
	return sandbox.New(sandbox.Config{Guarantee: channels.Guarantee(e.Guarantee), KeyWindow: time.Duration(e.KeyWindow), Timeout: time.Duration(e.Timeout)})
}
