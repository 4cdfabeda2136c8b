package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// rsaKey is the key of all service accounts: making one takes a while.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// firebaseKey writes a service account's key file and returns its path.
func firebaseKey(t testing.TB, tokenURI string) string {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "my-app-1a2b3", "private_key_id": "1", "client_email": "onebell@my-app-1a2b3.iam.gserviceaccount.com", "token_uri": tokenURI,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "firebase.json")
	if err := os.WriteFile(path, content, 0o400); err != nil {
		t.Fatal(err)
	}
	return path
}

// A recipient is found under each form that a channel stores it in, so each type's sample content must be valid.
func TestEveryTypesSampleIsValid(t *testing.T) {
	recipients := map[string]string{"smtp": "Ada@Example.ORG", "webhook": "https://Example.org/hook", "fcm": "device-0001:APA91b", "sandbox": "anybody"}
	setEnv(t, serveEnv("ONEBELL_CHANNELS", "mail:smtp,hooks:webhook,push:fcm,box:sandbox", "ONEBELL_ALLOW_SANDBOX", "box",
		"ONEBELL_CHANNEL_PUSH_CREDENTIALS_FILE", firebaseKey(t, "https://oauth2.googleapis.com/token")))
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newApp(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.instances) != len(channelTypes()) {
		t.Fatalf("%d instances for %d types", len(c.instances), len(channelTypes()))
	}
	for _, in := range c.instances {
		e, _ := app.registry.Lookup(in.name)
		if _, err := e.Channel.Validate(recipients[in.typ], in.env.sample()); err != nil {
			t.Errorf("%s: %v", in.typ, err)
		}
	}
	if got := len(app.recipientHashes("Ada@Example.ORG")); got != 2 {
		t.Errorf("%d hashes, want one of the form as given and one of the mail channel's", got)
	}
}

func TestFCMIsConfiguredByItsVariables(t *testing.T) {
	env := func(pairs ...string) map[string]string {
		return serveEnv(append([]string{"ONEBELL_CHANNELS", "mail:smtp,hooks:webhook,push:fcm"}, pairs...)...)
	}
	setEnv(t, env())
	if _, err := loadConfig(serveNeeds); err == nil || !strings.Contains(err.Error(), "ONEBELL_CHANNEL_PUSH_CREDENTIALS_FILE is required") {
		t.Errorf("without credentials: %v", err)
	}
	const file, address = "ONEBELL_CHANNEL_PUSH_CREDENTIALS_FILE", "ONEBELL_CHANNEL_PUSH_ENDPOINT"
	path := firebaseKey(t, "https://oauth2.googleapis.com/token")
	for _, c := range []struct{ name, value, want string }{
		{"ONEBELL_CHANNEL_PUSH_PROJECT_ID", "other-app", ""},
		{address, "http://127.0.0.1:9099", ""},
		{address, "http://fcm.example", "ONEBELL_CHANNEL_PUSH: ENDPOINT must be an https address"},
		{"ONEBELL_CHANNEL_PUSH_TIMEOUT", "1h", "ONEBELL_CHANNEL_PUSH_TIMEOUT is out of range"},
	} {
		setEnv(t, env(file, path, c.name, c.value))
		err := loadAndBuild()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}
