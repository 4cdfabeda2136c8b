package fcm

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// body is an error in the form of Google's APIs: a google.rpc status, with FCM's own code where there is one.
func body(status int, name, fcmCode string) string {
	details := ""
	if fcmCode != "" {
		details = `,"details":[{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"` + fcmCode + `"}]`
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":"said by FCM","status":%q%s}}`, status, name, details)
}

func exchange(status int, body string, header ...string) channels.Exchange {
	h := http.Header{"Content-Type": {"application/json; charset=UTF-8"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return channels.Exchange{Phase: channels.PhaseReply, Status: status, Header: h, Body: []byte(body), Whole: true, Excerpt: body, At: time.Now()}
}

// The truth table of FCM's replies: https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode, providers.md and reports
// W2, W3 and B4. What is not definite is unknown.
func TestTruthTable(t *testing.T) {
	const (
		accepted, refused, throttled = channels.Accepted, channels.Refused, channels.Throttled
		misconfigured, unknown       = channels.Misconfigured, channels.Unknown
		ten, minute                  = 10 * time.Second, time.Minute
	)
	html := []string{"Content-Type", "text/html; charset=utf-8"}
	const page = "<html><title>Error</title></html>"
	for _, c := range []struct {
		name   string
		x      channels.Exchange
		proven bool
		want   channels.Result
		code   string
		wait   time.Duration
		dead   bool
	}{
		{"taken", exchange(200, `{"name":"projects/p/messages/1"}`), false, accepted, "200", 0, false},
		{"taken, without a name", exchange(200, `{}`), false, accepted, "200", 0, false},
		{"taken, without a body", exchange(200, ``), false, accepted, "200", 0, false},
		{"taken, body unreadable", exchange(200, `{"name":`), false, accepted, "200", 0, false},
		{"a page in place of FCM", exchange(200, page, html...), false, unknown, "reply-not-fcm", ten, false},
		{"W2 200 with an error", exchange(200, body(404, "NOT_FOUND", "UNREGISTERED")), false, refused, "UNREGISTERED", 0, true},
		{"W2 200 with Google's error", exchange(200, body(403, "PERMISSION_DENIED", "")), false, misconfigured, "PERMISSION_DENIED", 0, false},
		{"W2 200 with an empty error", exchange(200, `{"error":{}}`), false, unknown, "200", ten, false},

		{"W2 200 with an error in another form", exchange(200, `{"error":"InvalidRegistration"}`), false, unknown, "200", ten, false},
		{"W2 200 with a success and no error", exchange(200, `{"error":null,"name":7}`), false, accepted, "200", 0, false},

		{"W3 unregistered", exchange(404, body(404, "NOT_FOUND", "UNREGISTERED")), false, refused, "UNREGISTERED", 0, true},
		{"W3 invalid argument", exchange(400, body(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")), false, refused, "INVALID_ARGUMENT", 0, false},
		{"W3 bad payload", exchange(400, body(400, "INVALID_ARGUMENT", "")), false, refused, "INVALID_ARGUMENT", 0, false},
		{"W3 foreign token, project not proven", exchange(403, body(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH")), false, misconfigured, "SENDER_ID_MISMATCH", 0, false},
		{"W3 foreign token, project proven", exchange(403, body(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH")), true, refused, "SENDER_ID_MISMATCH", 0, false},
		{"W3 APNs key", exchange(401, body(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR")), true, misconfigured, "THIRD_PARTY_AUTH_ERROR", 0, false},
		{"W3 APNs key, older name", exchange(401, body(401, "UNAUTHENTICATED", "APNS_AUTH_ERROR")), true, misconfigured, "APNS_AUTH_ERROR", 0, false},
		{"W3 access token", exchange(401, body(401, "UNAUTHENTICATED", "")), true, misconfigured, "UNAUTHENTICATED", 0, false},
		{"W3 role or API", exchange(403, body(403, "PERMISSION_DENIED", "")), true, misconfigured, "PERMISSION_DENIED", 0, false},
		{"wrong project", exchange(404, body(404, "NOT_FOUND", "")), true, misconfigured, "NOT_FOUND", 0, false},
		{"wrong address", exchange(404, page, html...), true, misconfigured, "404", 0, false},
		{"redirected", exchange(302, page, html...), true, misconfigured, "302", 0, false},

		{"B4 quota", exchange(429, body(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), "Retry-After", "20"), false, throttled, "QUOTA_EXCEEDED", 20 * time.Second, false},
		{"B4 quota, no Retry-After", exchange(429, body(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")), false, throttled, "QUOTA_EXCEEDED", minute, false},
		{"B4 quota, absurd Retry-After", exchange(429, body(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), "Retry-After", "99999999999999999999"), false, throttled, "QUOTA_EXCEEDED", time.Hour, false},
		{"B4 quota of Google's front", exchange(429, page, html...), false, throttled, "429", minute, false},

		{"internal", exchange(500, body(500, "INTERNAL", "INTERNAL")), false, unknown, "INTERNAL", ten, false},
		{"unavailable", exchange(503, body(503, "UNAVAILABLE", "UNAVAILABLE"), "Retry-After", "30"), false, unknown, "UNAVAILABLE", 30 * time.Second, false},
		{"unavailable, no Retry-After", exchange(503, body(503, "UNAVAILABLE", "UNAVAILABLE")), false, unknown, "UNAVAILABLE", ten, false},
		{"unavailable, HTML", exchange(502, page, html...), false, unknown, "502", ten, false},
		{"deadline", exchange(504, body(504, "DEADLINE_EXCEEDED", "")), false, unknown, "DEADLINE_EXCEEDED", ten, false},
		{"cancelled", exchange(499, body(499, "CANCELLED", "")), false, unknown, "CANCELLED", ten, false},
		{"aborted", exchange(409, body(409, "ABORTED", "")), false, unknown, "ABORTED", ten, false},
		{"no more information", exchange(400, body(400, "UNKNOWN", "UNSPECIFIED_ERROR")), false, unknown, "UNSPECIFIED_ERROR", ten, false},
		{"a code of tomorrow, 5xx", exchange(500, body(500, "UNKNOWN", "SOMETHING_NEW")), false, unknown, "SOMETHING_NEW", ten, false},
		{"a code of tomorrow, 4xx", exchange(400, body(400, "FAILED_PRECONDITION", "SOMETHING_NEW")), false, refused, "SOMETHING_NEW", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := classify(c.x, nil, c.proven)
			if o.Result() != c.want || o.Code() != c.code || o.Wait() != c.wait || o.DeadRecipient() != c.dead || o.Phase() != channels.PhaseReply {
				t.Errorf("%v %q wait %v dead %v phase %q, want %v %q wait %v dead %v", o.Result(), o.Code(), o.Wait(), o.DeadRecipient(), o.Phase(), c.want, c.code, c.wait, c.dead)
			}
			contract := contractOf(Config{}, account{})
			if dead := slices.Contains(contract.DeadRecipientCode, o.Code()); dead != o.DeadRecipient() {
				t.Errorf("the contract says dead %v of %s", dead, o.Code())
			}
			if listed := slices.Contains(contract.MisconfiguredCode, o.Code()); o.Result() == misconfigured && o.Code() != "302" && !listed {
				t.Errorf("the contract does not list %s", o.Code())
			}
		})
	}
}

// FCM's own code is not believed where the body is not all there, or not readable.
func TestBrokenBodiesProveNothing(t *testing.T) {
	x := exchange(503, body(404, "NOT_FOUND", "UNREGISTERED"))
	x.Whole = false
	if o := classify(x, nil, true); o.Result() != channels.Unknown || o.Code() != "503" {
		t.Errorf("%v %s", o.Result(), o.Code())
	}
	x = exchange(503, body(404, "NOT_FOUND", "UNREGISTERED"), "Content-Encoding", "gzip")
	if o := classify(x, nil, true); o.Result() != channels.Unknown || o.Code() != "503" {
		t.Errorf("%v %s", o.Result(), o.Code())
	}
}

// No reply: "not sent" only where nothing can have been applied, and never a reason to reject.
func TestTruthTableWithoutReply(t *testing.T) {
	for _, c := range []struct {
		x    channels.Exchange
		want channels.Result
		wait time.Duration
	}{
		{channels.Exchange{}, channels.Unknown, 10 * time.Second},
		{channels.Exchange{Phase: channels.PhaseNone, Code: channels.HTTPCanceled}, channels.NotSent, 0},
		{channels.Exchange{Phase: channels.PhaseConnect, Code: channels.HTTPDial}, channels.NotSent, 0},
		{channels.Exchange{Phase: channels.PhaseConnect, Code: channels.HTTPTLS}, channels.NotSent, 0},
		{channels.Exchange{Phase: channels.PhaseConnect, Code: channels.HTTPForbidden}, channels.Misconfigured, 0},
		{channels.Exchange{Phase: channels.PhaseNone, Code: channels.HTTPInvalid}, channels.Misconfigured, 0},
		{channels.Exchange{Phase: channels.PhaseRequest, Code: channels.HTTPLost}, channels.NotSent, 0},
		{channels.Exchange{Phase: channels.PhaseCommitted, Code: channels.HTTPLost}, channels.Unknown, 10 * time.Second},
		{channels.Exchange{Phase: channels.PhaseCommitted, Code: channels.HTTPTimeout}, channels.Unknown, 10 * time.Second},
		{channels.Exchange{Phase: channels.PhaseCommitted, Code: channels.HTTPMalformed}, channels.Unknown, 10 * time.Second},
	} {
		if o := classify(c.x, nil, true); o.Result() != c.want || o.Wait() != c.wait || o.Code() != c.x.Code || o.Phase() != c.x.Phase {
			t.Errorf("%+v: %v at %q wait %v, want %v wait %v", c.x, o.Result(), o.Phase(), o.Wait(), c.want, c.wait)
		}
	}
}

// An operator reads FCM's sentence, what to mend, and the member that FCM complains of; never the token.
func TestMessages(t *testing.T) {
	x := exchange(400, `{"error":{"code":400,"message":"Invalid value for device-0001:APA91b","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.android.ttl","description":"device-0001:APA91b"}]}]}}`)
	if o := classify(x, []string{"device-0001:APA91b", "", "a"}, true); o.Message() != "Invalid value for […] (message.android.ttl)" {
		t.Errorf("%q", o.Message())
	}
	for code, status := range map[string]int{"THIRD_PARTY_AUTH_ERROR": 401, "SENDER_ID_MISMATCH": 403} {
		if o := classify(exchange(status, body(status, "X", code)), nil, false); !strings.HasPrefix(o.Message(), "said by FCM; ") || !strings.HasSuffix(o.Message(), advice[code]) {
			t.Errorf("%s: %q", code, o.Message())
		}
	}
}

// Whatever comes, what is said holds: nothing is accepted without a 2xx, nothing is definite that is not in the table, no secret
// is shown, and an unknown outcome is not resent at once.
func FuzzClassify(f *testing.F) {
	f.Add(200, []byte(`{"name":"projects/p/messages/1"}`), "application/json", "1", true)
	f.Add(404, []byte(body(404, "NOT_FOUND", "UNREGISTERED")), "application/json", "", true)
	f.Add(503, []byte("<html>device-0001:APA91b</html>"), "text/html", "Wed, 21 Oct 2015 07:28:00 GMT", false)
	f.Add(200, []byte(`{"error":{"code":"404","details":[{"errorCode":7}],"message":"device-0001:APA91b"}}`), "", "-1", true)
	const secret = "device-0001:APA91b"
	f.Fuzz(func(t *testing.T, status int, text []byte, kind, after string, whole bool) {
		x := channels.Exchange{Phase: channels.PhaseReply, Status: status, Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}}, Body: text, Whole: whole, At: time.Now()}
		if status == 0 {
			x.Phase, x.Code = channels.PhaseCommitted, channels.HTTPLost
		}
		o := classify(x, []string{secret}, true)
		switch success := status >= 200 && status <= 299; {
		case o.Result() == channels.Accepted && !success, o.Result() == channels.NotSent:
			t.Errorf("%v of status %d", o.Result(), status)
		case o.Definite() && status == 0:
			t.Errorf("%v without a reply", o.Result())
		case o.DeadRecipient() && o.Code() != "UNREGISTERED":
			t.Errorf("dead of %s", o.Code())
		case o.Result() == channels.Unknown && o.Wait() < time.Second, o.Wait() > time.Hour:
			t.Errorf("%v waits %v", o.Result(), o.Wait())
		case strings.Contains(o.Message(), secret):
			t.Errorf("shows %q", o.Message())
		}
	})
}
