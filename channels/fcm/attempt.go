package fcm

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"firebase.google.com/go/v4/messaging"

	"github.com/onebell/onebell/channels"
)

var errRendered = errors.New("no message")

// prepare returns what this attempt sends: the rendered bytes, and in them what belongs to the attempt, if anything does: the
// time that is left until expires_at, and a priority other than normal.
func prepare(a channels.Attempt, now time.Time) ([]byte, *messaging.Message, error) {
	var forSDK struct {
		Message *messaging.Message `json:"message"`
	}
	if err := json.Unmarshal(a.Rendered, &forSDK); err != nil || forSDK.Message == nil {
		return nil, nil, errRendered
	}
	hints := hintsOf(a, now)
	if len(hints) == 0 {
		return a.Rendered, forSDK.Message, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(a.Rendered))
	decoder.UseNumber()
	var body map[string]any
	if err := decoder.Decode(&body); err != nil {
		return nil, nil, errRendered
	}
	for _, h := range hints {
		if err := set(body, h.value, h.path...); err != nil {
			return nil, nil, err
		}
	}
	out, err := json.Marshal(body)
	return out, forSDK.Message, err
}

// hint is a member that is set for one attempt.
type hint struct {
	value string
	path  []string
}

// hintsOf follows https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages: a span for Android, an instant for
// Apple, seconds for the web.
func hintsOf(a channels.Attempt, now time.Time) (out []hint) {
	add := func(value string, path ...string) {
		out = append(out, hint{value, append([]string{"message"}, path...)})
	}
	if !a.ExpiresAt.IsZero() {
		seconds := strconv.FormatInt(int64(min(max(a.ExpiresAt.Sub(now), 0), maxTTL)/time.Second), 10)
		add(seconds+"s", "android", "ttl")
		add(strconv.FormatInt(a.ExpiresAt.Unix(), 10), "apns", "headers", "apns-expiration")
		add(seconds, "webpush", "headers", "TTL")
	}
	switch a.Priority {
	case "high":
		add("high", "android", "priority")
		add("10", "apns", "headers", "apns-priority")
		add("high", "webpush", "headers", "Urgency")
	case "low":
		add("normal", "android", "priority")
		add("5", "apns", "headers", "apns-priority")
		add("low", "webpush", "headers", "Urgency")
	}
	return out
}

// set puts a member into an object, and the objects on the way to it where they are missing.
func set(in map[string]any, value string, path ...string) error {
	for _, name := range path[:len(path)-1] {
		if in[name] == nil {
			in[name] = map[string]any{}
		}
		next, ok := in[name].(map[string]any)
		if !ok {
			return errRendered
		}
		in = next
	}
	in[path[len(path)-1]] = value
	return nil
}
