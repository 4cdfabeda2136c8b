package channels

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ClassifyHTTP says what an exchange proves, where the provider has no rules of its own; adapters look at the statuses they
// know better (409, 410, 401) first. It is the table of providers.md section 1:
//
//   - no reply, and the head of the request was not wholly written: not sent
//   - no reply, and it was: unknown
//   - 2xx: accepted, whatever became of the body
//   - 429 and 425 (the peer would not risk a replay, RFC 8470): throttled
//   - 408, 5xx and what HTTP does not know: unknown
//   - 3xx, as no redirect is followed, and other 4xx: refused
func ClassifyHTTP(x Exchange) Outcome {
	code := strconv.Itoa(x.Status)
	switch s := x.Status; {
	case s == 0:
		return classifyNoReply(x)
	case s >= 200 && s <= 299:
		return OutcomeAccepted("", code, x.Excerpt)
	case s == http.StatusTooManyRequests, s == http.StatusTooEarly:
		return OutcomeThrottled(ParseRetryAfter(x.Header, x.At), code, x.Excerpt)
	case s >= 300 && s <= 399:
		return OutcomeRefused(code, "the receiver redirects, and redirects are not followed; give the final address")
	case s >= 400 && s <= 499 && s != http.StatusRequestTimeout:
		return OutcomeRefused(code, x.Excerpt)
	}
	return OutcomeUnknown(PhaseReply, code, x.Excerpt).WithWait(ParseRetryAfter(x.Header, x.At))
}

func classifyNoReply(x Exchange) Outcome {
	sentence := httpSentences[x.Code]
	switch {
	case x.Phase == PhaseCommitted || x.Phase == PhaseReply || x.Code == "": // the zero exchange proves nothing
		return OutcomeUnknown(x.Phase, x.Code, sentence)
	case x.Code == HTTPForbidden || x.Code == HTTPInvalid:
		return OutcomeRefusedAt(x.Phase, x.Code, sentence)
	}
	return OutcomeNotSent(x.Phase, x.Code, sentence)
}

// Bounds of what a Retry-After can ask for.
const (
	RetryAfterMin = time.Second
	RetryAfterMax = time.Hour
)

// ParseRetryAfter returns what the Retry-After of a reply asks to wait, clamped to RetryAfterMin … RetryAfterMax, or 0 if it
// does not say, or says nothing that RFC 9110 knows. A date is counted from the reply's own Date, where it has one: the
// peer's clock is not ours.
func ParseRetryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.Atoi(value)
		if err != nil || seconds > int(RetryAfterMax/time.Second) { // the error of digits alone is: too many
			return RetryAfterMax
		}
		return clampWait(time.Duration(seconds) * time.Second)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return clampWait(at.Sub(now))
}

func clampWait(d time.Duration) time.Duration { return min(max(d, RetryAfterMin), RetryAfterMax) }
