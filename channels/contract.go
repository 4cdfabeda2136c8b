package channels

import "time"

// Guarantee is what a channel promises for one intent.
type Guarantee string

// The three guarantees, from strongest to weakest.
const (
	// Keyed: the provider drops repeats of one key, so a resend inside the key window has no second effect.
	Keyed Guarantee = "keyed"
	// Replaceable: a repeat replaces the notification that is shown; it may alert twice.
	Replaceable Guarantee = "replaceable"
	// DuplicateVisible: a repeat would be seen, so nothing is repeated after an ambiguous send.
	DuplicateVisible Guarantee = "duplicate-visible"
)

// CollapseScope says what a repeat with the same collapse key replaces.
type CollapseScope string

// Collapse scopes.
const (
	CollapseNone        CollapseScope = ""            // the channel has no collapse key
	CollapseUndelivered CollapseScope = "undelivered" // replaces what the device has not received yet
	CollapseShown       CollapseScope = "shown"       // replaces what is shown, too
)

// LookUp says how the truth about an ambiguous send can be found out later.
type LookUp string

// Kinds of look-up.
const (
	LookUpNone   LookUp = "none"
	LookUpPull   LookUp = "pull"   // the adapter implements Looker
	LookUpEvents LookUp = "events" // the provider calls back
)

// OnUnknown is an operator's setting for replaceable channels: what an unknown outcome does.
type OnUnknown string

// Settings of OnUnknown.
const (
	OnUnknownResend OnUnknown = "resend" // send again with the same collapse key
	OnUnknownHold   OnUnknown = "hold"   // keep the intent UNKNOWN until evidence or a person settles it
)

// Contract is what one configured channel instance can promise. It is a value: adapters compute it once, at
// construction, and everything that depends on a channel's nature is derived from it, never from its name.
type Contract struct {
	Guarantee Guarantee `json:"guarantee"`

	// KeyField names where the provider takes the effect key (a header, a member); empty if it takes none.
	KeyField string `json:"key_field,omitempty"`
	// KeyFormat is the encoding of the effect key, one of the formats of package dedup. Required: every channel has
	// an effect key, if only as a label (Message-ID).
	KeyFormat string `json:"key_format"`
	// KeyWindow is how long the provider remembers a key. For a keyed channel it must be positive.
	KeyWindow time.Duration `json:"key_window,omitempty"`
	// KeyScope is a fingerprint of what the provider's key memory hangs on (account, credential, endpoint). Keys used
	// under another scope protect nothing. Never the credential itself.
	KeyScope string `json:"key_scope,omitempty"`

	CollapseField  string        `json:"collapse_field,omitempty"`
	CollapseFormat string        `json:"collapse_format,omitempty"` // a format of package dedup; required with CollapseField
	CollapseScope  CollapseScope `json:"collapse_scope,omitempty"`

	LookUp LookUp `json:"look_up"`

	// AttemptTimeout bounds one Send from its first byte to its last. The lease of a claim is longer than this.
	AttemptTimeout time.Duration `json:"attempt_timeout"`

	MaxContentBytes   int           `json:"max_content_bytes,omitempty"` // 0: the broker's limit alone
	MinTTL            time.Duration `json:"min_ttl,omitempty"`
	MaxTTL            time.Duration `json:"max_ttl,omitempty"` // 0: the provider knows no TTL
	DeadRecipientCode []string      `json:"dead_recipient_codes,omitempty"`
	MisconfiguredCode []string      `json:"misconfigured_codes,omitempty"`
}

// Settings are the operator's limits of one channel instance.
type Settings struct {
	Concurrency int           // simultaneous sends, ≥ 1
	Rate        float64       // sends per second; 0: no limit
	MaxAttempts int           // attempts that the provider answered before an intent is EXHAUSTED, ≥ 1
	MaxAge      time.Duration // time since admission (or not_before) after which retrying ends
	OnUnknown   OnUnknown     // replaceable channels only
}
