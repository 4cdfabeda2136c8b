package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// identity names an intent as everybody outside knows it.
type identity struct {
	caller, channel, key string
	revision             int32
}

func (i identity) String() string {
	return fmt.Sprintf("%s/%s %s revision %d", i.caller, i.channel, i.key, i.revision)
}

// variant tells two meanings apart that were told under one identity: "a" is the fact, "b" a conflicting one.
type variant string

// mark is written into every content, so that a provider's ledger says of which fact it speaks.
func mark(i identity, v variant) string {
	return fmt.Sprintf("fact %s %s %s %d %s end", i.caller, i.channel, i.key, i.revision, v)
}

var marked = regexp.MustCompile(`fact ([a-z]+) ([a-z]+) ([A-Za-z0-9:.-]+) ([0-9]+) ([a-z]) end`)

// readMark finds the mark in what a provider got.
func readMark(body []byte) (identity, variant, bool) {
	m := marked.FindSubmatch(body)
	if m == nil {
		return identity{}, "", false
	}
	revision, err := strconv.ParseInt(string(m[4]), 10, 32)
	if err != nil {
		return identity{}, "", false
	}
	return identity{string(m[1]), string(m[2]), string(m[3]), int32(revision)}, variant(m[5]), true
}

// answer is what a provider said to a call, as far as it knows.
type answer string

// Answers.
const (
	answerAccepted answer = "accepted"
	answerRefused  answer = "refused" // for good; not applied
	answerLater    answer = "later"   // not applied, and said so
	answerVague    answer = "vague"   // a reply that does not say whether it was applied
	answerNone     answer = "none"    // none, half of one, or none of the protocol
	answerLate     answer = "late"    // accepted, after the sender's time was over
)

// effect is one call that a provider got so far that it could act on it.
type effect struct {
	channel string
	of      identity
	variant variant
	key     string // Message-ID, Idempotency-Key or webhook-id
	slot    string // push: whose notification of which tag; what is shown there is the last one
	body    string // hash of every byte that must be the same on each call
	to      string // hash of the recipient

	begun, at time.Time // when the call came, and when it was decided
	applied   bool      // a person sees it, or would
	repeated  bool      // keyed: dropped, because the key was known
	mismatch  bool      // keyed: the key was known with another body
	unread    bool      // hung up on before it was read whole
	answer    answer
	mishap    mishap // "" for none
}

// doubtful reports whether the caller cannot know what became of the call.
func (e effect) doubtful() bool {
	return e.answer == answerVague || e.answer == answerNone || e.answer == answerLate
}

// ledger keeps the effects in the order in which they were decided.
type ledger struct {
	mu      sync.Mutex
	kept    []effect
	mishaps map[string]int
}

func (l *ledger) enter(e effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, e)
}

func (l *ledger) count(m mishap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mishaps == nil {
		l.mishaps = map[string]int{}
	}
	l.mishaps[string(m)]++
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
