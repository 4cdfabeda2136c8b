package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// pushPeer speaks as FCM's HTTP v1 API does, its token endpoint included. It knows no keys: every message it takes is shown, in the place
// of the one with the same tag on the same device.
type pushPeer struct {
	p           *peers
	url         string
	credentials string // the service account's file
	server      *http.Server
	serving     sync.WaitGroup
}

const pushProject = "campaign-project"

func newPushPeer(p *peers) (_ *pushPeer, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &pushPeer{p: p, url: "http://" + l.Addr().String()}
	if f.credentials, err = serviceAccount(f.url + "/token"); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", f.grant)
	mux.HandleFunc("POST /v1/projects/"+pushProject+"/messages:send", f.send)
	f.server = newServer(mux)
	f.serving.Go(func() { _ = f.server.Serve(l) }) // ends when closed
	return f, nil
}

// accountKey is the key of every campaign's account, in PEM: making one takes a while.
var accountKey = sync.OnceValues(func() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), err
})

// serviceAccount writes the file of an account.
func serviceAccount(tokenURI string) (path string, err error) {
	key, err := accountKey()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": pushProject, "client_email": "campaign@example.org", "private_key_id": "1",
		"private_key": key, "token_uri": tokenURI,
	})
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "onebell-campaign-*.json") // readable to nobody else
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	return file.Name(), errors.Join(err, file.Close())
}

func (f *pushPeer) close() error {
	err := errors.Join(f.server.Close(), os.Remove(f.credentials))
	f.serving.Wait()
	return err
}

// accessToken is what the token endpoint gives; no log may show it.
const accessToken = "campaign-access-token"

func (f *pushPeer) grant(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, accessToken) // the asker may be gone
}

// pushMessage is what is looked at of a message.
type pushMessage struct {
	Message struct {
		Token   string `json:"token"`
		Android struct {
			Notification struct {
				Tag string `json:"tag"`
			} `json:"notification"`
		} `json:"android"`
	} `json:"message"`
}

func (f *pushPeer) send(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	if r.Header.Get("Authorization") != "Bearer "+accessToken {
		pushError(w, http.StatusUnauthorized, "UNAUTHENTICATED", "")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender broke off: nothing happened
	}
	var m pushMessage
	if err := json.Unmarshal(body, &m); err != nil {
		pushError(w, http.StatusBadRequest, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
		return
	}
	to := m.Message.Token
	c := &httpCall{p: f.p, w: w, to: to, fate: f.p.fate(pushChannel, to)}
	c.effect = effect{
		channel: pushChannel, to: hash([]byte(to)), begun: begun, mishap: c.fate,
		slot: hash([]byte(to)) + "/" + m.Message.Android.Notification.Tag, body: hash(timeless(body)),
	}
	c.effect.of, c.effect.variant, _ = readMark(body)
	if !c.heard() {
		return
	}
	c.ok = fmt.Sprintf(`{"name":"projects/%s/messages/0:%d"}`, pushProject, begun.UnixNano())
	c.vague = func(status int) {
		pushError(w, status, map[int]string{503: "UNAVAILABLE", 500: "INTERNAL"}[status], "")
	}
	if strings.HasSuffix(to, goneMark) {
		c.enter(answerRefused)
		pushError(w, http.StatusNotFound, "NOT_FOUND", "UNREGISTERED")
		return
	}
	c.serve(func(e *effect) { e.applied = true })
}

// pushError answers as Google's APIs do.
func pushError(w http.ResponseWriter, status int, name, code string) {
	detail := ""
	if code != "" {
		detail = fmt.Sprintf(`{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":%q}`, code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":"as the campaign wants it","status":%q,"details":[%s]}}`, status, name, detail)
}

// timeless is a message without what belongs to one attempt of it: the time that it has left.
func timeless(body []byte) []byte {
	var m struct {
		Message map[string]any `json:"message"`
	}
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	drop := func(name string, path ...string) {
		in := m.Message
		for _, step := range path {
			next, ok := in[step].(map[string]any)
			if !ok {
				return
			}
			in = next
		}
		delete(in, name)
	}
	drop("ttl", "android")
	drop("apns-expiration", "apns", "headers")
	drop("TTL", "webpush", "headers")
	out, err := json.Marshal(m.Message)
	if err != nil {
		return body
	}
	return out
}
