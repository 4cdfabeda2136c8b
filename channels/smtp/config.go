package smtp

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"os"
	"strings"
	"time"
)

// TLSMode says how much encryption a connection needs. With a connection that is encrypted, the server's certificate is
// always checked.
type TLSMode string

// TLS modes.
const (
	// TLSMandatory upgrades with STARTTLS, and speaks to no server that cannot. Port 465 is TLS from the first byte.
	TLSMandatory TLSMode = "mandatory"
	// TLSOpportunistic upgrades where STARTTLS is offered. Who sits in between can strike out the offer.
	TLSOpportunistic TLSMode = "opportunistic"
	// TLSNone never encrypts; a password is then sent to a server on this machine only.
	TLSNone TLSMode = "none"
)

// Secret is a string that prints itself as "[redacted]".
type Secret string

const redacted = "[redacted]"

func (Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return redacted }

// MarshalText hides the secret from JSON and from slog.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Config is one mail server and the account at it. The zero value of a duration or number stands for its default.
type Config struct {
	Addr     string // host:port, required
	From     string // "shop@example.org" or "Shop <shop@example.org>"; the envelope's sender, too. Required
	Username string // empty: no login
	Password Secret
	TLS      TLSMode // default mandatory
	Helo     string  // the name given in EHLO; default: the host's name

	// IdempotencyHeader names the header from which this relay takes a key, dropping repeats
	// ("Resend-Idempotency-Key", "Idempotency-Key", "X-EE-Idempotency-Key"), for as long as KeyWindow. Both or none.
	IdempotencyHeader string
	KeyWindow         time.Duration

	Timeout        time.Duration // bounds one attempt as a whole; default 3 min
	ConnectTimeout time.Duration // bounds resolving and dialling; default 15 s
	CommandTimeout time.Duration // bounds each command and its reply before the final dot; default 30 s
	// DotTimeout is the share of Timeout that is kept for the reply to the final dot, default two thirds: the dot is not
	// sent when less is left, because giving up early is what makes an unknown out of a slow acceptance (RFC 5321 §4.5.3.2.6).
	DotTimeout time.Duration

	NoReuse     bool          // a connection for every mail
	MaxIdle     int           // connections kept open between mails; default 32
	IdleTimeout time.Duration // how long one is kept; default 20 s

	RootCAs    *x509.CertPool // nil: the system's
	ServerName string         // the name in the server's certificate; default: the host of Addr
}

// settled is a Config with defaults filled in and addresses taken apart.
type settled struct {
	Config
	host, port   string
	from         mail.Address // Address in normal form
	fromDomain   string
	implicitTLS  bool
	loopbackHost bool
}

func (c Config) settle() (settled, error) {
	s := settled{Config: c}
	var err error
	if s.host, s.port, err = net.SplitHostPort(c.Addr); err != nil || s.host == "" || s.port == "" {
		return s, errors.New("ADDR must be host:port, as in mail.example.org:587")
	}
	parsed, err := mail.ParseAddress(c.From)
	if err != nil {
		return s, errors.New(`FROM must be one mail address, as in shop@example.org or "Shop <shop@example.org>"`)
	}
	address, err := parseAddress(parsed.Address)
	if err != nil {
		return s, fmt.Errorf("FROM: %w", err)
	}
	if !isASCII(address) {
		return s, errors.New("FROM: use ASCII before the @, since not every server takes anything else")
	}
	s.from = mail.Address{Name: parsed.Name, Address: address}
	s.fromDomain = address[strings.LastIndexByte(address, '@')+1:]
	s.defaults()
	return s, s.check()
}

func (s *settled) defaults() {
	def(&s.TLS, TLSMandatory)
	def(&s.Timeout, 3*time.Minute)
	def(&s.ConnectTimeout, 15*time.Second)
	def(&s.CommandTimeout, 30*time.Second)
	def(&s.DotTimeout, s.Timeout*2/3)
	def(&s.MaxIdle, 32)
	def(&s.IdleTimeout, 20*time.Second)
	def(&s.ServerName, s.host)
	if s.Helo == "" {
		s.Helo, _ = os.Hostname()
		if !isHelo(s.Helo) {
			s.Helo = "localhost"
		}
	}
	s.implicitTLS = s.port == "465" && s.TLS != TLSNone // RFC 8314 §3.3
	s.loopbackHost = s.host == "localhost" || s.host == "127.0.0.1" || s.host == "::1"
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (s *settled) check() error {
	switch {
	case s.TLS != TLSMandatory && s.TLS != TLSOpportunistic && s.TLS != TLSNone:
		return errors.New("TLS must be mandatory, opportunistic or none")
	case (s.Username == "") != (s.Password == ""):
		return errors.New("USERNAME and PASSWORD go together: set both or neither")
	case !isHelo(s.Helo):
		return errors.New("HELLO must be a host name or an address literal, without blanks")
	case s.IdempotencyHeader != "" && !isHeaderName(s.IdempotencyHeader):
		return errors.New("IDEMPOTENCY_HEADER must be the name of a header that is not otherwise used, as in Idempotency-Key")
	case s.IdempotencyHeader != "" && s.KeyWindow <= 0:
		return errors.New("IDEMPOTENCY_HEADER needs KEY_WINDOW: how long the relay remembers a key")
	case s.IdempotencyHeader == "" && s.KeyWindow != 0:
		return errors.New("KEY_WINDOW needs IDEMPOTENCY_HEADER: the header from which the relay takes the key")
	case s.Timeout < 0 || s.ConnectTimeout < 0 || s.CommandTimeout < 0 || s.DotTimeout < 0 || s.IdleTimeout < 0 || s.MaxIdle < 0:
		return errors.New("timeouts and limits must be positive")
	case s.DotTimeout >= s.Timeout:
		return errors.New("the timeout of the final dot must be shorter than TIMEOUT, which bounds the whole attempt")
	}
	return nil
}

func isHelo(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// isHeaderName: a header that the operator may have filled with the key, and that nothing else here writes.
func isHeaderName(name string) bool {
	if len(name) > maxHeaderName || reservedHeader(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '-' && !isAlnum(c) {
			return false
		}
	}
	return true
}

// keyScope fingerprints what a relay's memory of keys hangs on: the server and the account, not the password, and the header in
// which it finds them, because mails that are rendered already hold the key in that one.
func (s *settled) keyScope() string {
	sum := sha256.Sum256([]byte("onebell smtp scope v2\x00" + strings.ToLower(s.Addr) + "\x00" + s.Username + "\x00" + strings.ToLower(s.IdempotencyHeader)))
	return hex.EncodeToString(sum[:8])
}
