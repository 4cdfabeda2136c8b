package dedup

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// MinSecret is the least length of a deployment secret, in bytes.
const MinSecret = 32

// Deriver names effects and recipients by a keyed hash, so that a provider, or a reader of the database, can neither read a fact
// out of a name nor guess one. It is safe for concurrent use.
type Deriver struct{ secret []byte }

// NewDeriver returns a Deriver with the deployment's secret. Two deployments that share a database share the secret; changing it
// changes the name of every effect.
func NewDeriver(secret []byte) (*Deriver, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("ONEBELL_SECRET has %d bytes; it needs at least %d random ones (make one with: openssl rand -base64 48)",
			len(secret), MinSecret)
	}
	return &Deriver{secret: slices.Clone(secret)}, nil
}

// String hides the secret from logs and errors.
func (d *Deriver) String() string { return "dedup.Deriver" }

// GoString hides the secret from %#v.
func (d *Deriver) GoString() string { return d.String() }

// EffectKey names one effect: the same for every attempt of an intent, another for every revision.
func (d *Deriver) EffectKey(id Identity) Derived {
	return d.derive("onebell effect v1", id.Caller, id.Channel, string(id.Key), strconv.Itoa(int(id.Revision)))
}

// CollapseKey names what replaces what: the revisions of a fact share it, or, if the producer gave a collapse id, everything with that
// id of the same caller on the same channel.
func (d *Deriver) CollapseKey(id Identity, collapseID string) Derived {
	if collapseID != "" {
		return d.derive("onebell collapse id v1", id.Caller, id.Channel, collapseID)
	}
	return d.derive("onebell collapse fact v1", id.Caller, id.Channel, string(id.Key))
}

// RecipientHash finds a recipient after it was forgotten. The recipient is in the channel's normal form.
func (d *Deriver) RecipientHash(recipient string) []byte {
	sum := d.derive("onebell recipient v1", recipient)
	return sum[:]
}

func (d *Deriver) derive(parts ...string) Derived {
	mac := hmac.New(sha256.New, d.secret)
	writeParts(mac, parts...)
	return Derived(mac.Sum(nil))
}

// Derived is a derived name before it is written in a provider's alphabet.
type Derived [32]byte

// Format is how a derived name is written: alphabet and length follow what providers take.
type Format string

// Formats. Shorter ones keep fewer bits of the hash: never less than 122.
const (
	FormatUUID        Format = "uuid"         // RFC 9562 version 8, lower case: OneSignal, LINE, apns-id, Brevo
	FormatBase64URL24 Format = "base64url24"  // 24 of [A-Za-z0-9_-]: Discord's nonce takes 25
	FormatBase64URL32 Format = "base64url32"  // 32 of [A-Za-z0-9_-]: Web Push's Topic takes exactly that
	FormatHex40       Format = "hex40"        // 40 of [0-9a-f]: Vonage's client-ref
	FormatHex64       Format = "hex64"        // 64 of [0-9a-f]: PagerDuty, SES tags, Resend, apns-collapse-id
	FormatClientHex40 Format = "client-hex40" // "client-" and 40 of [0-9a-f]: Google Chat's message id
)

// Formats lists all formats.
func Formats() []Format {
	return []Format{FormatUUID, FormatBase64URL24, FormatBase64URL32, FormatHex40, FormatHex64, FormatClientHex40}
}

// ParseFormat returns the format of that name, or an error that lists the known ones.
func ParseFormat(s string) (Format, error) {
	if f := Format(s); slices.Contains(Formats(), f) {
		return f, nil
	}
	return "", fmt.Errorf("unknown key format %q; known are %v", s, Formats())
}

// Encode writes the name in the format. The error is ParseFormat's.
func (d Derived) Encode(f Format) (string, error) {
	switch f {
	case FormatUUID:
		u := [16]byte(d[:16])
		u[6] = u[6]&0x0f | 0x80 // version 8
		u[8] = u[8]&0x3f | 0x80 // variant of RFC 9562
		s := hex.EncodeToString(u[:])
		return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], nil
	case FormatBase64URL24:
		return base64.RawURLEncoding.EncodeToString(d[:18]), nil
	case FormatBase64URL32:
		return base64.RawURLEncoding.EncodeToString(d[:24]), nil
	case FormatHex40:
		return hex.EncodeToString(d[:20]), nil
	case FormatHex64:
		return hex.EncodeToString(d[:]), nil
	case FormatClientHex40:
		return "client-" + hex.EncodeToString(d[:20]), nil
	}
	_, err := ParseFormat(string(f))
	return "", err
}
