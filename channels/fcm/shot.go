package fcm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/onebell/onebell/channels"
)

// shot is one attempt's way to the wire, beneath a library that would resend by itself: firebase.google.com/go/v4 repeats a
// request up to four times on every transport error and on 503 (internal/http_client.go of v4.19.0, and no option turns it
// off; https://github.com/firebase/firebase-admin-go/issues/579). The first request goes through; what became of it is kept here,
// whole, and the library is told something that it does not repeat.
// It is used by one goroutine.
type shot struct {
	engine  *channels.HTTPEngine
	ctx     context.Context // bounds the exchange: one library takes no context
	bearer  string          // "": no Authorization
	body    []byte          // sent in place of what the library encoded, if set: stored bytes stay the same under another version of it
	secrets []string

	fired    bool
	sent     []byte
	exchange channels.Exchange
}

// answered is what a library is told when there was no successful reply: it repeats transport errors and 503, follows 3xx, and
// takes this as final.
const answered = 599

// RoundTrip makes the exchange, once.
func (s *shot) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() {
		if r.Body != nil {
			_ = r.Body.Close() // of a buffer
		}
	}()
	if s.fired {
		return response(r, answered, nil), nil
	}
	body, err := s.payload(r)
	if err != nil {
		return response(r, answered, nil), nil
	}
	h := r.Header.Clone()
	h.Set("User-Agent", "onebell")
	if s.bearer != "" {
		h.Set("Authorization", "Bearer "+s.bearer)
	}
	s.fired, s.sent = true, body
	s.exchange = s.engine.Do(s.ctx, channels.HTTPRequest{Method: r.Method, URL: r.URL.String(), Header: h, Body: body, Secrets: s.secrets})
	if x := s.exchange; x.Status >= 200 && x.Status <= 299 && x.Whole {
		return response(r, x.Status, x.Body), nil
	}
	return response(r, answered, nil), nil
}

var errNothing = errors.New("the library sends nothing")

func (s *shot) payload(r *http.Request) ([]byte, error) {
	switch {
	case s.body != nil:
		return s.body, nil
	case r.Body == nil:
		return nil, errNothing
	}
	return io.ReadAll(r.Body)
}

func response(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

type shotKey struct{}

// context returns the attempt's context with the shot in it, for byContext.
func (s *shot) context() context.Context { return context.WithValue(s.ctx, shotKey{}, s) }

// byContext is the transport of the SDK's client: each request goes the way of the attempt that it belongs to.
type byContext struct{}

// RoundTrip implements http.RoundTripper.
func (byContext) RoundTrip(r *http.Request) (*http.Response, error) {
	if s, ok := r.Context().Value(shotKey{}).(*shot); ok {
		return s.RoundTrip(r)
	}
	return response(r, answered, nil), nil // no attempt, no request
}
