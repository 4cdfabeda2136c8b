package fcm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/fcm"
)

// D2: the SDK resends by itself up to four times; here every attempt is one POST, what became of it is not known, and the
// resend, which is another attempt, replaces what the first may have shown.
func TestD2OneAttemptIsOnePOST(t *testing.T) {
	for name, peer := range map[string]channeltest.HTTPOptions{
		"503":                  {Reply: reply(503, googleError(503, "UNAVAILABLE", "UNAVAILABLE", "try later"))},
		"503 with Retry-After": {Reply: reply(503, "", "Retry-After: 1")},
		"500":                  {Reply: reply(500, googleError(500, "INTERNAL", "INTERNAL", "oops"))},
		"closed after":         {Fault: channeltest.FaultCloseAfter},
		"reset after":          {Fault: channeltest.FaultResetAfter},
		"silent timeout":       {Fault: channeltest.FaultSilence},
		"cut status line":      {Fault: channeltest.FaultTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := patience
			if name == "silent timeout" {
				timeout = 3 * time.Second // for everything before the silence, too
			}
			r := newRig(t, peer, channeltest.HTTPOptions{}, timeout)
			a := attempt(t, r, `{"title":"a"}`)
			for n := range 2 {
				a.Generation = int32(n + 1)
				o := r.Send(t.Context(), a)
				if o.Result() != channels.Unknown || o.Wait() < time.Second {
					t.Errorf("attempt %d: %v %s wait %v", n+1, o.Result(), o.Code(), o.Wait())
				}
				if got := len(r.fcm.Arrivals()); got != n+1 {
					t.Fatalf("%d POSTs after %d attempts", got, n+1)
				}
			}
			for _, got := range r.fcm.Arrivals() {
				m := object(t, got.Body)["message"].(map[string]any)
				shown := fmt.Sprint(m["android"], m["apns"], m["webpush"])
				if string(got.Body) != string(a.Rendered) || strings.Count(shown, collapse) != 4 {
					t.Errorf("sent %s", got.Body)
				}
			}
		})
	}
}

// R1: the status line of a 200 has spoken; the SDK would send this one five times.
func TestD2ACut200IsAccepted(t *testing.T) {
	r := newRig(t, channeltest.HTTPOptions{Fault: channeltest.FaultBreakAfter}, channeltest.HTTPOptions{}, patience)
	o := r.Send(t.Context(), attempt(t, r, `{"title":"a"}`))
	if o.Result() != channels.Accepted || o.ProviderID() != "" || len(r.fcm.Arrivals()) != 1 {
		t.Errorf("%v %q, %d POSTs", o.Result(), o.ProviderID(), len(r.fcm.Arrivals()))
	}
}

// W3: a dead token is known as one, and betrays itself nowhere.
func TestW3Unregistered(t *testing.T) {
	r := newRig(t, channeltest.HTTPOptions{Reply: reply(404, googleError(404, "NOT_FOUND", "UNREGISTERED", "no entity "+deviceToken))}, channeltest.HTTPOptions{}, patience)
	o := r.Send(t.Context(), attempt(t, r, `{"title":"a"}`))
	if o.Result() != channels.Refused || !o.DeadRecipient() || o.Code() != "UNREGISTERED" || o.Message() != "no entity […]" {
		t.Errorf("%v dead %v %s %q", o.Result(), o.DeadRecipient(), o.Code(), o.Message())
	}
}

// A foreign token pauses the channel while the project may be the wrong one, and is rejected once it is known to be the right
// one: neither must a wrong project reject everything, nor one token stop everybody.
func TestW3SenderIDMismatch(t *testing.T) {
	mismatch := reply(403, googleError(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", "SenderId mismatch"))
	r := newRig(t, channeltest.HTTPOptions{Reply: inTurn(taken, mismatch, taken, mismatch)}, channeltest.HTTPOptions{}, patience)
	toDevice := attempt(t, r, `{"title":"a"}`)
	toTopic := toDevice
	toTopic.Recipient = "topic:news"
	var err error
	if toTopic.Rendered, err = r.Render(channels.Message{Recipient: toTopic.Recipient, Content: []byte(`{"title":"a"}`)}); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		a    channels.Attempt
		want channels.Result
	}{
		{toTopic, channels.Accepted}, // proves nothing about tokens
		{toDevice, channels.Misconfigured},
		{toDevice, channels.Accepted},
		{toDevice, channels.Refused},
	} {
		if o := r.Send(t.Context(), step.a); o.Result() != step.want || o.DeadRecipient() {
			t.Errorf("step %d: %v %s, want %v", i, o.Result(), o.Code(), step.want)
		}
	}
}

// What cannot be sent is not sent; nothing is asked of anybody.
func TestUnreadableRenderedBytes(t *testing.T) {
	r := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{}, patience)
	for _, rendered := range []string{"", "{", "null", `{"message":null}`, `{"message":7}`} {
		o := r.Send(t.Context(), channels.Attempt{Recipient: deviceToken, Rendered: []byte(rendered)})
		if o.Result() != channels.Refused || o.Code() != "rendered-invalid" || o.Phase() != channels.PhaseNone {
			t.Errorf("%s: %v %s", rendered, o.Result(), o.Code())
		}
	}
	if o := r.Send(t.Context(), channels.Attempt{Recipient: deviceToken, Rendered: []byte(`{"message":{}}`)}); o.Result() != channels.Refused || o.Code() != "sdk-refused" {
		t.Errorf("without a target: %v %s", o.Result(), o.Code())
	}
	if n := r.fcm.Connections(); n != 0 {
		t.Errorf("%d connections to FCM", n)
	}
}

func TestX5ConfigErrorsNameTheVariable(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.json")
	writeCredentials(t, good, "key-1", "https://oauth2.googleapis.com/token")
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := filepath.Join(dir, "plain.json")
	writeCredentials(t, plain, "key-1", "http://tokens.example/token")
	const key = `"private_key":"hunter2-secret"`
	for variable, configs := range map[string][]fcm.Config{
		"TIMEOUT": {{CredentialsFile: good}},
		"CREDENTIALS_FILE": {
			{Timeout: time.Second},
			{Timeout: time.Second, CredentialsFile: filepath.Join(dir, "missing-hunter2-secret")},
			{Timeout: time.Second, CredentialsFile: dir},
			{Timeout: time.Second, CredentialsFile: file("text", "hunter2-secret")},
			{Timeout: time.Second, CredentialsFile: file("user", `{"type":"authorized_user","client_email":"a@b","refresh_token":"hunter2-secret"}`)},
			{Timeout: time.Second, CredentialsFile: file("no-email", `{"type":"service_account",`+key+`}`)},
			{Timeout: time.Second, CredentialsFile: file("no-key", `{"type":"service_account","client_email":"a@b",`+key+`}`)},
			{Timeout: time.Second, CredentialsFile: plain},
		},
		"PROJECT_ID": {{Timeout: time.Second, CredentialsFile: good, ProjectID: "my-app/../hunter2-secret"}, {Timeout: time.Second, CredentialsFile: good, ProjectID: "x"}},
		"ENDPOINT": {
			{Timeout: time.Second, CredentialsFile: good, Endpoint: "http://fcm.example"},
			{Timeout: time.Second, CredentialsFile: good, Endpoint: "https://fcm.example/v1"},
			{Timeout: time.Second, CredentialsFile: good, Endpoint: "https://u:hunter2-secret@fcm.example"},
			{Timeout: time.Second, CredentialsFile: good, Endpoint: "fcm.example"},
			{Timeout: time.Second, CredentialsFile: good, Endpoint: "https://fcm.example?k=hunter2-secret"},
		},
	} {
		for _, c := range configs {
			_, err := fcm.New(c)
			if err == nil || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%+v: %v, want an error that names %s and no secret", c, err, variable)
			}
		}
	}
	for _, endpoint := range []string{"", "https://fcm.example/", "https://fcm.example:8443", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"} {
		ch, err := fcm.New(fcm.Config{Timeout: time.Second, CredentialsFile: good, Endpoint: endpoint})
		if err != nil {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		_ = ch.Close()
	}
}

// Another key, account, project or address is another scope; the same is the same after a restart.
func TestKeyScopeIsTheCredentials(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "credentials.json")
	scope := func(keyID string, c fcm.Config) string {
		writeCredentials(t, path, keyID, "https://oauth2.googleapis.com/token")
		c.CredentialsFile, c.Timeout = path, time.Second
		ch, err := fcm.New(c)
		if err != nil {
			t.Fatal(err)
		}
		_ = ch.Close()
		return ch.Contract().KeyScope
	}
	base := scope("key-1", fcm.Config{})
	if base == "" || base != scope("key-1", fcm.Config{ProjectID: project, Endpoint: "https://fcm.googleapis.com"}) {
		t.Error("the scope is not stable")
	}
	for name, other := range map[string]string{
		"key": scope("key-2", fcm.Config{}), "project": scope("key-1", fcm.Config{ProjectID: "other-app"}), "address": scope("key-1", fcm.Config{Endpoint: "https://fcm.example"}),
	} {
		if other == base {
			t.Errorf("another %s is the same scope", name)
		}
	}
}
