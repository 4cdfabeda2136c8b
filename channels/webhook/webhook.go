// Package webhook sends notifications to HTTPS receivers, signed by the rules of Standard Webhooks.
//
// What a receiver is sent: POST, a JSON body {"type","timestamp","data"}, webhook-id (the effect key, the same on every
// attempt), webhook-timestamp (of the attempt) and webhook-signature
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md); with Dedup
// "idempotency-key" also Idempotency-Key, with the same value.
//
// What it answers: 2xx accepts, whatever the body says. 410 ends the address. 429 and 425 ask to wait; with
// "idempotency-key" so does 409 (an earlier request is in progress) and 422 says that the key came with another body, which
// is final. Other 3xx and 4xx are final. 408, 5xx and no reply say nothing about what was done.
//
// The guarantee is the receiver's to give, so the operator declares it: receivers that drop repeats of webhook-id or
// Idempotency-Key for at least KeyWindow are keyed, all others duplicate-visible.
//
// Look-up (optional): GET on LookupURL, with {key} replaced by the effect key and the same three headers signed over an
// empty body, answers 200 with {"status":"accepted"} (and "id", if there is one) when the key's request was taken, and
// {"status":"not-found"} only when it was not, is not being processed, and will be refused should it still arrive. Every
// other answer means that the receiver cannot tell.
package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/onebell/onebell/channels"
)

// Dedup is what the channel's receivers promise.
type Dedup string

// Kinds of dedup.
const (
	DedupNone           Dedup = "none"            // nothing: a repeat is a second notification
	DedupIdempotencyKey Dedup = "idempotency-key" // they drop repeats of Idempotency-Key
	DedupWebhookID      Dedup = "webhook-id"      // they drop repeats of webhook-id
)

// Config is one webhook channel. Errors of New name the variables ONEBELL_CHANNEL_<NAME>_….
type Config struct {
	Dedup          Dedup          // "": none
	KeyWindow      time.Duration  // how long receivers remember a key; required unless Dedup is none
	Quoted         bool           // Idempotency-Key as a quoted string, as the IETF draft has it; most receivers want it bare
	SigningSecrets []string       // "whsec_" and base64 of 24 to 64 bytes; all of them sign; none: unsigned
	AllowPrivate   []netip.Prefix // networks in which any address, any port and plain http may be sent to
	LookupURL      string         // with {key}; "": no look-up
	Timeout        time.Duration  // of one attempt, from resolving to the last byte; required
	RootCAs        *x509.CertPool // nil: the system's
}

// Channel sends webhooks. It is safe for concurrent use; Close it at the end.
type Channel struct {
	config   Config
	contract channels.Contract
	secrets  [][]byte
	engine   *channels.HTTPEngine
}

// keepIdle is how long a connection is kept where a repeat is harmless. Where it is not, each attempt has its own: a
// connection that the receiver closes just as it is used again would leave an outcome that nobody knows.
const keepIdle = 30 * time.Second

// New returns a channel, or an error that says which variable to mend and shows no secret.
func New(c Config) (*Channel, error) {
	if c.Dedup == "" {
		c.Dedup = DedupNone
	}
	ch := &Channel{config: c, contract: contractOf(c)}
	switch {
	case c.Dedup != DedupNone && c.Dedup != DedupIdempotencyKey && c.Dedup != DedupWebhookID:
		return nil, errors.New("DEDUP must be none, idempotency-key or webhook-id")
	case c.Dedup != DedupNone && c.KeyWindow <= 0:
		return nil, errors.New("KEY_WINDOW must say how long receivers remember a key, as DEDUP says that they do")
	}
	if err := checkLookup(c); err != nil {
		return nil, err
	}
	var err error
	if ch.secrets, err = parseSecrets(c.SigningSecrets); err != nil {
		return nil, err
	}
	o := channels.HTTPOptions{Timeout: c.Timeout, AllowPrivate: c.AllowPrivate, RootCAs: c.RootCAs}
	if c.Dedup != DedupNone {
		o.IdleTimeout = keepIdle
	}
	ch.engine, err = channels.NewHTTPEngine(o)
	return ch, err
}

func checkLookup(c Config) error {
	if c.LookupURL == "" {
		return nil
	}
	if strings.Count(c.LookupURL, "{key}") != 1 {
		return errors.New("LOOKUP_URL must hold {key} once, where the key goes")
	}
	if _, err := normalURL(lookupURL(c.LookupURL, "key"), c.AllowPrivate); err != nil {
		var r *channels.Refusal
		errors.As(err, &r)
		return errors.New("LOOKUP_URL: " + r.Message)
	}
	return nil
}

func contractOf(c Config) channels.Contract {
	k := channels.Contract{
		Guarantee: channels.DuplicateVisible, KeyFormat: "uuid", LookUp: channels.LookUpNone,
		AttemptTimeout: c.Timeout, MaxContentBytes: maxContent, DeadRecipientCode: []string{"410"},
	}
	if c.LookupURL != "" {
		k.LookUp = channels.LookUpPull
	}
	if c.Dedup != DedupNone {
		k.Guarantee, k.KeyField, k.KeyWindow, k.KeyScope = channels.Keyed, string(c.Dedup), c.KeyWindow, keyScope(c)
	}
	return k
}

// keyScope names what a receiver's memory of keys hangs on, apart from its URL, which is fixed for the life of an intent:
// the header that holds the key and how it is written. Signing secrets are no part of it: a receiver verifies with them
// and then looks the key up, and rotating them must not make every intent in doubt a case for a person.
func keyScope(c Config) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "webhook key scope v1 %s quoted=%t", c.Dedup, c.Quoted && c.Dedup == DedupIdempotencyKey))
	return hex.EncodeToString(sum[:8])
}

// Contract implements channels.Channel.
func (c *Channel) Contract() channels.Contract { return c.contract }

// Close closes idle connections.
func (c *Channel) Close() error { return c.engine.Close() }

// Validate implements channels.Channel. The recipient is a URL.
func (c *Channel) Validate(recipient string, raw json.RawMessage) (string, error) {
	normal, err := normalURL(recipient, c.config.AllowPrivate)
	if err != nil {
		return "", err
	}
	if _, err := parseContent(raw); err != nil {
		return "", err
	}
	return normal, nil
}

// Render implements channels.Channel.
func (c *Channel) Render(m channels.Message) ([]byte, error) { return render(m) }

// Send implements channels.Channel.
func (c *Channel) Send(ctx context.Context, a channels.Attempt) channels.Outcome {
	h := c.header(a.EffectKey, a.Rendered)
	h.Set("Content-Type", "application/json")
	if c.config.Dedup == DedupIdempotencyKey {
		h.Set("Idempotency-Key", c.idempotencyKey(a.EffectKey))
	}
	x := c.engine.Do(ctx, channels.HTTPRequest{Method: http.MethodPost, URL: a.Recipient, Header: h, Body: a.Rendered})
	return classify(c.config.Dedup, x)
}

// LookUp implements channels.Looker. It may be called where the contract says LookUpPull.
func (c *Channel) LookUp(ctx context.Context, a channels.Attempt) channels.Outcome {
	if c.config.LookupURL == "" {
		return channels.OutcomeUnknown(channels.PhaseNone, "look-up", "no LOOKUP_URL is configured")
	}
	return lookedUp(c.engine.Do(ctx, channels.HTTPRequest{
		Method: http.MethodGet, URL: lookupURL(c.config.LookupURL, a.EffectKey), Header: c.header(a.EffectKey, nil),
	}))
}

func lookupURL(template, key string) string {
	return strings.Replace(template, "{key}", url.PathEscape(key), 1)
}

// header returns the headers of Standard Webhooks for an attempt that is made now.
func (c *Channel) header(key string, body []byte) http.Header {
	now := time.Now()
	h := http.Header{}
	h.Set("User-Agent", "onebell")
	h.Set("Webhook-Id", key)
	h.Set("Webhook-Timestamp", timestamp(now))
	if len(c.secrets) > 0 {
		h.Set("Webhook-Signature", signature(c.secrets, key, now, body))
	}
	return h
}

func (c *Channel) idempotencyKey(key string) string {
	if c.config.Quoted {
		return `"` + key + `"` // a structured field's string; the key's alphabet needs no escape
	}
	return key
}
