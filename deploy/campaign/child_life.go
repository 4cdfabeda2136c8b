package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/onebell/onebell/intents/fault"
)

// ending is how a dispatcher's life ends, or what it goes through first.
type ending int

const (
	killedAtPoint   ending = iota // SIGKILL by itself, at a point of its code
	killedAnyhow                  // SIGKILL from outside
	paused                        // SIGSTOP and SIGCONT from outside, shorter than a lease
	pausedAtPoint                 // the same, from inside, at a point
	pausedPastLease               // SIGSTOP around a send, until long after its lease is over
	partitioned                   // cut off from the broker, silently, until the broker gives its messages to others
	drained                       // SIGTERM
)

// life is what a dispatcher is to go through. All of it is drawn before it begins.
type life struct {
	ending ending
	plan   string        // for the binary's fault points
	wait   time.Duration // until the signal from outside; with a plan: how long the point may let it wait
	pause  time.Duration
	limits limits
}

// limits is what a dispatcher has to make do with, and how it is configured.
type limits struct {
	descriptors int    // open files; 0: as many as it likes
	memory      string // GOMEMLIMIT; "": none
	config      []string
}

// seldom are the points that a dispatcher passes once in a while: their lives are long, and the first pass counts.
var seldom = []fault.Point{fault.ReviseOpen, fault.RefuseDone, fault.TakeOverDone, fault.SweepDone, fault.RelayDone, fault.ClaimDone}

// often are those that every request passes.
var often = []fault.Point{
	fault.IntakeFetched, fault.IntakeRead, fault.AdmitBefore, fault.AdmitDone, fault.AnswerBefore, fault.AnswerDone, fault.ClaimBefore,
	fault.SendBefore, fault.SendDone, fault.SettleBefore, fault.SettleDone,
}

// late are those of them that a dispatcher passes only when it has lived for a while: whichever passes one, in the rounds that see to it,
// is killed there.
var late = []fault.Point{fault.TakeOverDone, fault.SweepDone}

// purges are those that only a dispatcher passes which forgets; see forgetfulWindows.
var purges = []fault.Point{fault.PurgeMoved, fault.PurgeKeys, fault.PurgeRows}

// reachable are the points that every round can pass.
var reachable = slices.Concat(often, seldom, []fault.Point{fault.WitnessBefore})

// forgetfulWindows make keys fall behind the watermark that were remembered for days.
var forgetfulWindows = []string{
	"ONEBELL_HORIZON=5m", "ONEBELL_KEEP_CONTENT=2s",
	"ONEBELL_CHANNEL_MAIL_MAX_AGE=1m", "ONEBELL_CHANNEL_KEYED_MAX_AGE=1m", "ONEBELL_CHANNEL_PLAIN_MAX_AGE=1m", "ONEBELL_CHANNEL_PUSH_MAX_AGE=1m",
}

// slow lets each dispatcher send one thing a second on each channel: what expires soon expires while it waits.
var slow = []string{
	"ONEBELL_CHANNEL_MAIL_RATE=1", "ONEBELL_CHANNEL_KEYED_RATE=1", "ONEBELL_CHANNEL_PLAIN_RATE=1", "ONEBELL_CHANNEL_PUSH_RATE=1",
}

// longMemory is how long dispatchers of a forgetful round remember everything, before their windows are changed.
const longMemory = 5 * time.Second

func between(rnd *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rnd.Int64N(int64(high-low)))
}

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

// drawLife chooses the next life.
func drawLife(rnd *rand.Rand) life {
	l := life{limits: drawLimits(rnd)}
	switch n := rnd.IntN(100); {
	case n < 45:
		at := pick(rnd, often)
		l.ending, l.wait = killedAtPoint, between(rnd, 2*time.Second, 4*time.Second)
		l.plan = fmt.Sprintf("%s:%d:kill", at, 1+rnd.IntN(6))
	case n < 65:
		at := pick(rnd, seldom)
		l.ending, l.wait = killedAtPoint, between(rnd, 3*time.Second, 6*time.Second)
		l.plan = fmt.Sprintf("%s:1:kill", at)
	case n < 80:
		l.ending, l.wait = killedAnyhow, between(rnd, 50*time.Millisecond, 2500*time.Millisecond)
	case n < 88:
		l.ending, l.wait, l.pause = paused, between(rnd, 300*time.Millisecond, 2*time.Second), between(rnd, 500*time.Millisecond, 4*time.Second)
	case n < 94:
		at := pick(rnd, often)
		l.ending, l.wait, l.pause = pausedAtPoint, 2*time.Second, between(rnd, 500*time.Millisecond, 4*time.Second)
		l.plan = fmt.Sprintf("%s:%d:stop", at, 1+rnd.IntN(12))
	default:
		l.ending, l.wait = drained, between(rnd, time.Second, 4*time.Second)
	}
	return l
}

// assigned is the life in which a dispatcher dies at the point that its seed has to see to, if it gets there in time.
func assigned(rnd *rand.Rand, at fault.Point, lease time.Duration) life {
	if at == fault.WitnessBefore {
		l := drawLongPause(rnd, lease)
		l.plan += ",witness.before:1:kill"
		return l
	}
	pass := 1
	if slices.Contains(often, at) {
		pass += rnd.IntN(3)
	}
	return life{ending: killedAtPoint, plan: fmt.Sprintf("%s:%d:kill", at, pass), wait: chaosTime}
}

// drawLongPause chooses a life whose process stands still around a send until its lease is over, and then says what it
// knows.
func drawLongPause(rnd *rand.Rand, lease time.Duration) life {
	at := pick(rnd, []fault.Point{fault.SendBefore, fault.SendDone, fault.SendDone, fault.SettleBefore})
	l := life{ending: pausedPastLease, wait: 4 * time.Second, pause: lease + between(rnd, 2*time.Second, 6*time.Second)}
	l.plan = fmt.Sprintf("%s:%d:stop", at, 1+rnd.IntN(5))
	return l
}

// ackWait is how long the broker waits for an acknowledgement before it delivers a message again.
const ackWait = 30 * time.Second

func drawPartition(rnd *rand.Rand) life {
	return life{ending: partitioned, wait: between(rnd, time.Second, 3*time.Second), pause: ackWait + between(rnd, time.Second, 4*time.Second)}
}

func drawLimits(rnd *rand.Rand) limits {
	var l limits
	switch rnd.IntN(12) {
	case 0:
		l.descriptors = 22 + rnd.IntN(16)
	case 1:
		l.memory = pick(rnd, []string{"12MiB", "20MiB"})
	case 2, 3:
		l.config = []string{
			"ONEBELL_HORIZON=" + pick(rnd, []string{"71h", "96h", "168h"}),
			"ONEBELL_CHANNEL_MAIL_CONCURRENCY=" + pick(rnd, []string{"1", "3", "32"}),
			"ONEBELL_CHANNEL_PLAIN_RATE=" + pick(rnd, []string{"20", "50", "200"}),
		}
	}
	return l
}
