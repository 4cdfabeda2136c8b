// Package dedup decides whether two requests speak of the same fact, and whether they mean the same.
//
// Identity says which effect is asked for; the fingerprint says what it means; the horizon says whether a key is
// young enough to be remembered; derived keys name the effect towards providers without telling them the fact.
package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Identity is the identity of one effect: at most one intent exists for it.
type Identity struct {
	Caller   string // authenticated producer
	Channel  string // channel instance
	Key      Key
	Revision int32 // 0 … 2³¹−1
}

// Fact is the 16-byte name of (caller, channel, key): the revisions of one fact share it. It is a truncated SHA-256 over
// the length-prefixed parts, so that no two different triples can be joined into the same bytes.
type Fact [16]byte

// Fact returns the fact that the identity is a revision of.
func (id Identity) Fact() Fact {
	h := sha256.New()
	writeParts(h, "onebell fact v1", id.Caller, id.Channel, string(id.Key))
	return Fact(h.Sum(nil)[:16])
}

// writeParts writes each part behind its length, so that two different lists never give the same bytes.
func writeParts(h hash.Hash, parts ...string) {
	for _, part := range parts {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
}

// InputError says what is wrong with something a producer wrote. Message is a sentence that says what to do; neither it nor
// Field ever holds the value.
type InputError struct {
	Code    string // one of the codes below
	Field   string // "key", "content.data.items[2]" …; "" for the whole text
	Message string
}

// Error joins code, field and sentence; it is safe to log.
func (e *InputError) Error() string {
	if e.Field == "" {
		return e.Code + ": " + e.Message
	}
	return e.Code + ": " + e.Field + ": " + e.Message
}

// Codes of InputError. They are part of the wire contract (package dispatch/wire lists all codes).
const (
	CodeKeyInvalid     = "key_invalid"
	CodeCallerInvalid  = "caller_invalid"
	CodeChannelInvalid = "channel_invalid"

	CodeJSONInvalid         = "json_invalid"          // not JSON at all, or something follows it
	CodeJSONUTF8            = "json_utf8"             // invalid UTF-8, or half of a surrogate pair
	CodeJSONNUL             = "json_nul"              // U+0000, raw or escaped
	CodeJSONDuplicateMember = "json_duplicate_member" // one object names a member twice
	CodeJSONNumber          = "json_number"           // a number that a double cannot hold
	CodeJSONDepth           = "json_depth"            // nested deeper than MaxDepth
)
