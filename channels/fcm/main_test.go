package fcm_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/fcm"
)

const (
	accessToken = "ya29.canary-access-token"
	project     = "my-app-1a2b3"
	deviceToken = "canary-device-0001:APA91bExample"
	collapse    = "Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFi" // 32 of base64url
)

// privateKey is made once: making one takes as long as an attempt may.
var privateKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
})

// writeCredentials writes a service account's key file, as the Firebase console makes it.
func writeCredentials(t *testing.T, path, keyID, tokenURI string) {
	t.Helper()
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": project, "private_key_id": keyID, "private_key": privateKey(),
		"client_email": "onebell@" + project + ".iam.gserviceaccount.com", "token_uri": tokenURI,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// rig is a channel, the peer in FCM's place, and the one in the place of Google's token endpoint.
type rig struct {
	*fcm.Channel
	fcm, token  *channeltest.HTTPPeer
	credentials string
}

func newRig(t *testing.T, forFCM, forToken channeltest.HTTPOptions, timeout time.Duration) rig {
	t.Helper()
	if forToken.Reply == nil && forToken.Fault == channeltest.FaultNone {
		forToken.Reply = reply(200, `{"access_token":"`+accessToken+`","expires_in":3599,"token_type":"Bearer"}`)
	}
	r := rig{
		fcm: channeltest.NewHTTPPeer(t, forFCM), token: channeltest.NewHTTPPeer(t, forToken),
		credentials: filepath.Join(t.TempDir(), "credentials.json"),
	}
	writeCredentials(t, r.credentials, "key-1", r.token.URL("/token"))
	ch, err := fcm.New(fcm.Config{CredentialsFile: r.credentials, Endpoint: r.fcm.URL(""), Timeout: timeout, RootCAs: r.fcm.Roots})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.Close() })
	r.Channel = ch
	return r
}

// patience is an attempt's time where the test does not wait for its end.
const patience = time.Minute

// reply answers with a status and a JSON body; further lines of the head may follow.
func reply(status int, body string, lines ...string) func(io.Writer, *http.Request, []byte) {
	head := strings.Join(append([]string{"Content-Type: application/json; charset=UTF-8"}, lines...), "\r\n")
	return func(w io.Writer, _ *http.Request, _ []byte) {
		fmt.Fprintf(w, "HTTP/1.1 %d X\r\n%s\r\nContent-Length: %d\r\n\r\n%s", status, head, len(body), body)
	}
}

// inTurn answers the n-th request with the n-th reply, and further ones with the last.
func inTurn(replies ...func(io.Writer, *http.Request, []byte)) func(io.Writer, *http.Request, []byte) {
	var mu sync.Mutex
	return func(w io.Writer, r *http.Request, body []byte) {
		mu.Lock()
		now := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		mu.Unlock()
		now(w, r, body)
	}
}

var taken = reply(200, `{"name":"projects/`+project+`/messages/0:1"}`)

// googleError is an error body in the form of Google's APIs.
func googleError(status int, name, fcmCode, message string) string {
	details := ""
	if fcmCode != "" {
		details = `,"details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"` + fcmCode + `"}]`
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q%s}}`, status, message, name, details)
}

func attempt(t *testing.T, ch channels.Channel, content string) channels.Attempt {
	t.Helper()
	rendered, err := ch.Render(channels.Message{CollapseKey: collapse, Recipient: deviceToken, Content: json.RawMessage(content)})
	if err != nil {
		t.Fatal(err)
	}
	return channels.Attempt{
		IntentID: "01900000-0000-7000-8000-000000000001", Generation: 1, EffectKey: "k", CollapseKey: collapse,
		Recipient: deviceToken, Rendered: rendered, Priority: "normal",
	}
}
