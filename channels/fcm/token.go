package fcm

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/onebell/onebell/channels"
)

// Codes of attempts that ended before FCM was asked anything.
const (
	codeGrant       = "invalid_grant" // and whatever else the token endpoint calls its refusals
	codeCredentials = "credentials-file"
	codeToken       = "access-token"
)

const (
	googleTokenURI = "https://oauth2.googleapis.com/token"
	scope          = "https://www.googleapis.com/auth/firebase.messaging"
	maxCredentials = 64 << 10 // bytes of the file
	// renewBefore is how long before its end a token is replaced: it must outlive an attempt and the difference of the clocks.
	renewBefore = 5 * time.Minute
)

// account is a service account's key file.
type account struct {
	Type     string `json:"type"`
	Project  string `json:"project_id"`
	Email    string `json:"client_email"`
	KeyID    string `json:"private_key_id"`
	Key      string `json:"private_key"`
	TokenURI string `json:"token_uri"`
}

// readAccount reads the file. The errors go on after a variable's name and show nothing of the content.
func readAccount(path string) (account, error) {
	var a account
	f, err := os.Open(path)
	if err != nil {
		return a, errors.New("names a file that cannot be read")
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCredentials))
	if err != nil {
		return a, errors.New("names a file that cannot be read")
	}
	if json.Unmarshal(raw, &a) != nil || a.Type != "service_account" || a.Email == "" {
		return a, errors.New("names a file that is no service account's key in JSON; make one in the Firebase console, Project settings, Service accounts")
	}
	if !isRSA(a.Key) {
		return a, errors.New("names a file whose private_key is no RSA key in PEM; make a new one in the Firebase console")
	}
	if a.TokenURI == "" {
		a.TokenURI = googleTokenURI
	}
	if u, err := url.Parse(a.TokenURI); err != nil || !trustworthy(u) {
		return a, errors.New("names a file whose token_uri is no https address")
	}
	return a, nil
}

func isRSA(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		_, ok := key.(*rsa.PrivateKey)
		return ok
	}
	_, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	return err == nil
}

// tokens keeps the access token. It is fetched by one attempt at a time, within that attempt's own time, and by one request:
// a failure is that attempt's outcome, and of those that waited for it. It is safe for concurrent use.
type tokens struct {
	path   string
	engine *channels.HTTPEngine
	turn   chan struct{} // held while fetching

	mu      sync.Mutex
	access  string
	renewAt time.Time
	round   int               // counts fetches that ended
	failed  *channels.Outcome // how the last one ended; nil: well, or its attempt was over
}

func newTokens(path string, engine *channels.HTTPEngine) *tokens {
	return &tokens{path: path, engine: engine, turn: make(chan struct{}, 1)}
}

// get returns an access token, or the outcome of the attempt that needed it: nothing was sent.
func (t *tokens) get(ctx context.Context) (string, *channels.Outcome) {
	access, round, _ := t.kept()
	if access != "" {
		return access, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		o := channels.OutcomeNotSent(channels.PhaseConnect, codeToken+"-"+channels.HTTPTimeout, "the attempt was over before another one had fetched an access token")
		return "", &o
	}
	access, now, failed := t.kept()
	if access != "" || now != round && failed != nil { // another one fetched meanwhile
		return access, failed
	}
	access, life, failed := t.fetch(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	t.access, t.renewAt = access, time.Now().Add(life-min(renewBefore, life/2))
	t.failed = failed
	if ctx.Err() != nil {
		t.failed = nil // says nothing to the others
	}
	return access, failed
}

func (t *tokens) kept() (access string, round int, failed *channels.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().After(t.renewAt) {
		t.access = ""
	}
	return t.access, t.round, t.failed
}

// drop forgets a token that was not taken.
func (t *tokens) drop(access string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.access == access {
		t.access = ""
	}
}

// fetch asks the token endpoint, once. The file is read anew, so that a replaced one counts without a restart.
func (t *tokens) fetch(ctx context.Context) (access string, life time.Duration, failed *channels.Outcome) {
	a, err := readAccount(t.path)
	if err != nil {
		o := channels.OutcomeMisconfigured(channels.PhaseNone, codeCredentials, "CREDENTIALS_FILE "+err.Error())
		return "", 0, &o
	}
	s := &shot{engine: t.engine, ctx: ctx}
	config := jwt.Config{Email: a.Email, PrivateKey: []byte(a.Key), PrivateKeyID: a.KeyID, Scopes: []string{scope}, TokenURL: a.TokenURI}
	token, err := config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: s})).Token()
	if err != nil || token.AccessToken == "" || strings.ContainsFunc(token.AccessToken, unprintable) {
		o := classifyToken(s.exchange, assertion(s.sent))
		return "", 0, &o
	}
	return token.AccessToken, time.Until(token.Expiry), nil
}

// unprintable reports what cannot stand in a header.
func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// assertion returns the signed request for a token, which is as good as a password for an hour.
func assertion(form []byte) string {
	values, err := url.ParseQuery(string(form))
	if err != nil {
		return string(form)
	}
	return values.Get("assertion")
}

// classifyToken says what an exchange with the token endpoint that brought no token proves. Nothing was sent, in any case.
// The secret is kept out of the outcome.
func classifyToken(x channels.Exchange, secret string) channels.Outcome {
	notSent := func(code, message string) channels.Outcome {
		return channels.OutcomeNotSent(channels.PhaseConnect, code, message).WithWait(channels.ParseRetryAfter(x.Header, x.At))
	}
	var refusal struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(x.Body, &refusal) // what is no refusal stays empty
	switch s := x.Status; {
	case s == 0:
		return notSent(codeToken+"-"+x.Code, "the token endpoint could not be asked for an access token")
	case s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s >= 500, s <= 299 && !x.Whole:
		return notSent(codeToken, "the token endpoint did not give an access token: "+http.StatusText(s))
	case refusal.Code == "":
		return channels.OutcomeMisconfigured(channels.PhaseConnect, codeToken, "what answers at the credentials file's token_uri is no token endpoint: "+http.StatusText(s))
	}
	secrets := []string{secret}
	return channels.OutcomeMisconfigured(channels.PhaseConnect, redact(refusal.Code, secrets),
		redact(refusal.Description, secrets)+"; the key was revoked or this host's clock is wrong: check CREDENTIALS_FILE and the clock")
}
