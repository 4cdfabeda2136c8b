package main

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"
)

// mishap is one way in which a provider can fail a sender. Its text is how it is counted.
type mishap string

// Mishaps. What of them a channel's protocol has no room for does not happen there.
const (
	replyLost    mishap = "F10 applied, reply lost"
	replyHalf    mishap = "F10 applied, half a reply"
	replyGarbage mishap = "F10 applied, reply not of the protocol"
	lateSuccess  mishap = "F10 applied and answered after the sender's time"
	cutUnread    mishap = "F10 hung up before it was read"
	cutBefore    mishap = "F10 hung up before it was applied"
	vagueUndone  mishap = "F11 503, not applied"
	vagueDone    mishap = "F11 500, applied"
	throttled    mishap = "F11 429 or 451, not applied"
	slowly       mishap = "F11 slow"
	halfOpen     mishap = "F11 taken and never answered"
	bodyCut      mishap = "F11 accepted, body cut"
	wrongType    mishap = "F11 accepted, wrong content type"
)

func allMishaps() []mishap {
	return []mishap{
		replyLost, replyHalf, replyGarbage, lateSuccess, cutUnread, cutBefore, vagueUndone, vagueDone, throttled, slowly, halfOpen,
		bodyCut, wrongType,
	}
}

// rates say how many of a channel's calls meet which mishap.
type rates map[mishap]float64

// mishaps says how often the providers misbehave, by channel; nil: never.
type mishaps map[string]rates

// evenly spreads a share of all calls over the mishaps.
func evenly(share float64, channels ...string) mishaps {
	m := mishaps{}
	for _, c := range channels {
		m[c] = rates{}
		for _, kind := range allMishaps() {
			m[c][kind] = share / float64(len(allMishaps()))
		}
	}
	return m
}

// draw decides what the n-th call for a recipient meets. It depends on nothing else, so that a seed is the same trouble however the
// calls are interleaved.
func (r rates) draw(seed uint64, channel, recipient string, n int) mishap {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, [2]uint64{seed, uint64(n)})
	_, _ = h.Write([]byte(channel + "\x00" + recipient))
	at := float64(mix(h.Sum64())>>11) / (1 << 53)
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		if at -= r[kind]; at < 0 {
			return kind
		}
	}
	return ""
}

// mix spreads a hash whose upper bits are poor (splitmix64's last step).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// span draws a duration for a call, as deterministic as its mishap.
func spanOf(seed uint64, recipient string, from, to time.Duration) time.Duration {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, seed)
	_, _ = h.Write([]byte(recipient))
	return from + time.Duration(mix(h.Sum64())%uint64(to-from))
}
