package fcm

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onebell/onebell/channels"
)

// Waits where FCM asks for none: https://firebase.google.com/docs/cloud-messaging/scale-fcm says a minute after 429, and at
// least ten seconds before anything is sent again.
const (
	quotaWait  = time.Minute
	resendWait = 10 * time.Second
)

// statusCancelled is what Google's APIs use for CANCELLED (https://cloud.google.com/apis/design/errors#http_mapping).
const statusCancelled = 499

// verdicts is what FCM's own codes prove, whatever the status that came with them
// (https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode). APNS_AUTH_ERROR is the older name of the one above it.
var verdicts = map[string]func(*failure) channels.Outcome{
	"UNREGISTERED":           (*failure).dead,
	"INVALID_ARGUMENT":       (*failure).refused,
	"SENDER_ID_MISMATCH":     (*failure).foreign,
	"THIRD_PARTY_AUTH_ERROR": (*failure).misconfigured,
	"APNS_AUTH_ERROR":        (*failure).misconfigured,
	"QUOTA_EXCEEDED":         (*failure).throttled,
	"UNAVAILABLE":            (*failure).unknown,
	"INTERNAL":               (*failure).unknown,
	"UNSPECIFIED_ERROR":      (*failure).unknown,
}

// advice says what to mend; it stands behind FCM's own sentence.
var advice = map[string]string{
	"SENDER_ID_MISMATCH":     "the token belongs to another Firebase project: check PROJECT_ID and CREDENTIALS_FILE",
	"THIRD_PARTY_AUTH_ERROR": "check the APNs key and the web push certificate in the Firebase console, Project settings, Cloud Messaging",
	"APNS_AUTH_ERROR":        "check the APNs key in the Firebase console, Project settings, Cloud Messaging",
	"UNAUTHENTICATED":        "FCM does not take the access token: check CREDENTIALS_FILE and this host's clock",
	"PERMISSION_DENIED":      "give the service account the role roles/firebasecloudmessaging.admin and enable the API fcm.googleapis.com in the project",
	"NOT_FOUND":              "there is no such project or no FCM at that address: check PROJECT_ID and ENDPOINT",
	"401":                    "the access token is not taken: check CREDENTIALS_FILE and ENDPOINT",
	"403":                    "access is denied: check CREDENTIALS_FILE, PROJECT_ID and ENDPOINT",
	"404":                    "there is no FCM at that address: check PROJECT_ID and ENDPOINT",
}

func misconfiguredCodes() []string {
	return []string{
		"SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND",
		"401", "403", "404", codeGrant, codeCredentials,
	}
}

// failure is an error that FCM reported.
type failure struct {
	status  int
	code    string // FCM's code, else Google's, else the status
	message string
	wait    time.Duration // 0: it did not say
	proven  bool          // the project is known to be the tokens' own
}

// classify says what an exchange with FCM proves. It is pure. Proven says that FCM has taken a message to a token of this
// project before. Secrets are kept out of the outcome.
func classify(x channels.Exchange, secrets []string, proven bool) channels.Outcome {
	if x.Status == 0 {
		return noReply(x)
	}
	reply := parse(x)
	f := &failure{
		status: x.Status, code: strconv.Itoa(x.Status), message: x.Excerpt, wait: channels.ParseRetryAfter(x.Header, x.At), proven: proven,
	}
	if e := reply.failure; e != nil {
		if said := e.Message + e.violations(); said != "" {
			f.message = redact(said, secrets)
		}
		for _, code := range []string{e.fcmCode(), e.Status} {
			if code != "" {
				f.code = code
				break
			}
		}
		if x.Status <= 299 { // a success that holds an error is what the error says
			f.status = e.Code
		}
	} else if x.Status <= 299 {
		return success(x, reply)
	}
	return f.outcome()
}

// success: the status has spoken, whatever became of the body, unless the body says that something else than FCM answered.
func success(x channels.Exchange, reply reply) channels.Outcome {
	kind, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if reply.name == "" && err == nil && len(x.Body) > 0 && kind != "application/json" {
		return channels.OutcomeUnknown(channels.PhaseReply, "reply-not-fcm", "something else than FCM answered with a page of its own: check ENDPOINT").WithWait(resendWait)
	}
	return channels.OutcomeAccepted(reply.name, strconv.Itoa(x.Status), "")
}

// outcome looks at FCM's code first and at the status where there is none that is known.
func (f *failure) outcome() channels.Outcome {
	if verdict, ok := verdicts[f.code]; ok {
		return verdict(f)
	}
	switch s := f.status; {
	case s == http.StatusTooManyRequests, s == http.StatusTooEarly:
		return f.throttled()
	case s == http.StatusUnauthorized, s == http.StatusForbidden, s == http.StatusNotFound, s == http.StatusMethodNotAllowed,
		s == http.StatusProxyAuthRequired, s >= 300 && s <= 399: // the address, the project or the account: nothing about this message
		return f.misconfigured()
	case s == http.StatusRequestTimeout, s == http.StatusConflict, s == statusCancelled:
		return f.unknown()
	case s >= 400 && s <= 499:
		return f.refused()
	}
	return f.unknown()
}

func (f *failure) dead() channels.Outcome { return channels.OutcomeDeadRecipient(f.code, f.message) }

// refused: an INVALID_ARGUMENT is no dead token; a message that is too large or has a bad key gets it, too.
func (f *failure) refused() channels.Outcome { return channels.OutcomeRefused(f.code, f.message) }

// foreign: one token of another project must not stop the channel for all; a wrong project must not reject everything.
func (f *failure) foreign() channels.Outcome {
	if f.proven {
		return channels.OutcomeRefused(f.code, f.message)
	}
	return f.misconfigured()
}

func (f *failure) misconfigured() channels.Outcome {
	message := f.message
	if hint := advice[f.code]; hint != "" {
		message = strings.TrimPrefix(message+"; "+hint, "; ")
	}
	return channels.OutcomeMisconfigured(channels.PhaseReply, f.code, message)
}

func (f *failure) throttled() channels.Outcome {
	wait := f.wait
	if wait == 0 {
		wait = quotaWait
	}
	return channels.OutcomeThrottled(wait, f.code, f.message)
}

// unknown: Google says of these that they may be tried again, and never that nothing was sent.
func (f *failure) unknown() channels.Outcome {
	wait := f.wait
	if wait == 0 {
		wait = resendWait
	}
	return channels.OutcomeUnknown(channels.PhaseReply, f.code, f.message).WithWait(wait)
}

func noReply(x channels.Exchange) channels.Outcome {
	o := channels.ClassifyHTTP(x)
	switch {
	case o.Result() == channels.Refused: // the address is no recipient's: the exchange could not be made at all
		return channels.OutcomeMisconfigured(o.Phase(), o.Code(), "FCM's address cannot be used: check ENDPOINT and PROJECT_ID")
	case o.Result() == channels.Unknown:
		return o.WithWait(resendWait)
	}
	return o
}

// reply is FCM's body: a name, or an error (https://cloud.google.com/apis/design/errors#http_mapping).
type reply struct {
	name    string
	failure *apiError // nil: it holds none
}

type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []struct {
		Type            string `json:"@type"`
		ErrorCode       string `json:"errorCode"`
		FieldViolations []struct {
			Field       string `json:"field"`
			Description string `json:"description"`
		} `json:"fieldViolations"`
	} `json:"details"`
}

// parse reads what there is; a body that is not FCM's is the zero reply. An error in another form than Google's is one, too, of
// which nothing is known.
func parse(x channels.Exchange) reply {
	var body struct {
		Name  any             `json:"name"`
		Error json.RawMessage `json:"error"`
	}
	if !x.Whole || x.Header.Get("Content-Encoding") != "" || json.Unmarshal(x.Body, &body) != nil {
		return reply{}
	}
	var r reply
	r.name, _ = body.Name.(string)
	if len(body.Error) > 0 && string(body.Error) != "null" {
		r.failure = &apiError{}
		_ = json.Unmarshal(body.Error, r.failure) // members of another type stay empty
	}
	return r
}

func (e *apiError) fcmCode() string {
	for _, d := range e.Details {
		if strings.HasSuffix(d.Type, "/google.firebase.fcm.v1.FcmError") {
			return d.ErrorCode
		}
	}
	return ""
}

// violations names the members that FCM complains of.
func (e *apiError) violations() string {
	var out strings.Builder
	for _, d := range e.Details {
		for _, v := range d.FieldViolations {
			if !strings.Contains(e.Message, v.Field) {
				out.WriteString(" (" + v.Field + ")")
			}
		}
	}
	return out.String()
}

// minSecret is the length from which on a secret is worth hiding; shorter ones are words.
const minSecret = 6

func redact(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "[…]")
		}
	}
	return text
}
