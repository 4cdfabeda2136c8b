// Package dedup decides whether two requests speak of the same fact, and whether they mean the same.
//
// Identity says which effect is asked for; the fingerprint says what it means; the horizon says whether a key is
// young enough to be remembered; derived keys name the effect towards providers without telling them the fact.
package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Key is a domain fact in the grammar `kind:entity[:qualifier …]`; make it with ParseKey.
type Key string

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
	for _, part := range []string{"onebell fact v1", id.Caller, id.Channel, string(id.Key)} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return Fact(h.Sum(nil)[:16])
}

// Meaning is what a request says, apart from its identity: two requests of one identity with different meanings are a conflict.
// Recipient is in the channel's normal form, Content in canonical JSON, OccurredAt in UTC microseconds.
type Meaning struct {
	Recipient  string
	Content    []byte
	CollapseID string
	OccurredAt time.Time
}

// Fingerprint is a versioned digest of a Meaning. Fingerprints of different versions cannot be compared.
type Fingerprint struct {
	Version uint8
	Sum     [32]byte
}
