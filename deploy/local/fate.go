package local

import "net/http"

// Fate is what becomes of one arrival at the Inbox or the Receiver. The zero value takes it.
type Fate struct {
	kind fateKind
	code int
	text string
}

type fateKind int

const (
	take fateKind = iota
	loseReply
	drop
	answer
)

// Take accepts the arrival and says so.
func Take() Fate { return Fate{} }

// LoseReply accepts the arrival and breaks the connection instead of saying so: it happened, the sender cannot know.
func LoseReply() Fate { return Fate{kind: loseReply} }

// Drop breaks the connection before the arrival is complete (a mail before its final dot, a call before its body): it did
// not happen.
func Drop() Fate { return Fate{kind: drop} }

// Answer refuses the arrival with a status: an SMTP one (4xx, 5xx) or an HTTP one. It did not happen.
func Answer(status int, text string) Fate { return Fate{kind: answer, code: status, text: text} }

// Arrival is what a script knows when it decides.
type Arrival struct {
	// N counts arrivals from 1, whatever became of them.
	N int
	// To is the mail's first recipient, or the call's path.
	To string
	// Key is the call's Idempotency-Key.
	Key string
}

// Script decides the fate of each arrival; it is called once for each, one at a time. nil takes all.
type Script func(Arrival) Fate

// maxKept bounds what an Inbox or a Receiver remembers: the newest.
const maxKept = 1000

// keep appends and forgets the oldest.
func keep[T any](list []T, item T) []T {
	if list = append(list, item); len(list) > maxKept {
		list = list[1:]
	}
	return list
}

// hardened keeps what strangers sent from doing anything in the developer's browser.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}
