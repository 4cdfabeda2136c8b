package channels

import (
	"cmp"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Codes of exchanges that brought no reply.
const (
	HTTPInvalid   = "request-invalid"
	HTTPForbidden = "address-forbidden"
	HTTPName      = "dns"
	HTTPDial      = "dial"
	HTTPTLS       = "tls"
	HTTPTimeout   = "timeout"
	HTTPCanceled  = "canceled"
	HTTPLost      = "connection-lost"
	HTTPMalformed = "malformed-reply"
)

// httpSentences say the codes to people. They are fixed: the errors beneath hold addresses and names.
var httpSentences = map[string]string{
	HTTPInvalid:   "the request could not be built",
	HTTPForbidden: "the receiver's address may not be connected to: it is not public, not on port 443 or 8443, or without TLS; list its network in ALLOW_PRIVATE if it is meant",
	HTTPName:      "the receiver's name could not be resolved",
	HTTPDial:      "no connection to the receiver could be opened",
	HTTPTLS:       "the TLS handshake with the receiver failed",
	HTTPTimeout:   "the time for the attempt was over",
	HTTPCanceled:  "the attempt was cancelled",
	HTTPLost:      "the connection ended before a reply was read",
	HTTPMalformed: "the head of the reply was not HTTP, broke off or was too large",
}

// Exchange is how one HTTP exchange ended.
type Exchange struct {
	Phase  Phase
	Code   string // why there is no reply; "" when there is one
	Status int    // of the reply; 0: no status line was read
	Header http.Header
	Body   []byte // at most MaxReply bytes, as sent; not unpacked
	Whole  bool   // the body ended within MaxReply, as its sender meant it to
	// Excerpt is the beginning of the body without any part of the URL or the request's secrets; "" of an encoded body.
	// Constructors of outcomes clean and cut it.
	Excerpt string
	At      time.Time // when the reply was read, by the local clock
}

// readReply reads what may be read of the body; the status has spoken already, so that no error of the body is one of the
// exchange.
func readReply(reply *http.Response, limit int64, secrets []string) Exchange {
	body, err := io.ReadAll(io.LimitReader(reply.Body, limit+1))
	x := Exchange{Phase: PhaseReply, Status: reply.StatusCode, Header: reply.Header, At: time.Now()}
	x.Whole = err == nil && int64(len(body)) <= limit
	x.Body = body[:min(int64(len(body)), limit)]
	if reply.Header.Get("Content-Encoding") == "" {
		x.Excerpt = excerpt(string(x.Body), x.Whole, secrets)
	}
	return x
}

// minSecret is the length from which on a part of a URL is worth hiding: shorter ones are words like "v1".
const minSecret = 6

// urlParts returns what of a URL could betray a recipient: all of it, and each part alone.
func urlParts(u *url.URL) []string {
	parts := []string{u.String(), u.RequestURI(), u.Host, u.Hostname()}
	for _, path := range []string{u.Path, u.EscapedPath()} {
		for segment := range strings.SplitSeq(path, "/") {
			parts = append(parts, segment)
		}
	}
	for name, values := range u.Query() {
		parts = append(parts, append(values, name)...)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		parts = append(parts, pair)
	}
	return parts
}

func excerpt(text string, whole bool, secrets []string) string {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	if !whole && len(secrets) > 0 { // it may end in the first half of a secret
		text = text[:max(0, len(text)-len(secrets[0]))]
	}
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[…]")
	}
	return text
}
