package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var _ admin.Ledger = (*pgstore.Store)(nil)

// Tokens of the tests' house.
const (
	tokenViewer   = "viewer-token-of-everybody"
	tokenOperator = "operator-token-of-everybody"
	tokenAdmin    = "admin-token-of-everybody"
	tokenShop     = "operator-token-of-shop"
	tokenOther    = "operator-token-of-other"
)

func hash(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

func tokensFile(t *testing.T) *admin.Tokens {
	t.Helper()
	var lines []string
	for token, who := range map[string]string{
		tokenViewer: "vera viewer *", tokenOperator: "otto operator *", tokenAdmin: "ada admin *",
		tokenShop: "sam operator shop", tokenOther: "olga operator other",
	} {
		lines = append(lines, who+" "+hex.EncodeToString(hash(token)))
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := admin.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// declared is a channel of which only the contract is asked.
type declared struct {
	channels.Channel
	contract channels.Contract
}

func (d declared) Contract() channels.Contract { return d.contract }

// house is the API on a real store, over real HTTP; every answer is checked against the OpenAPI document.
type house struct {
	*pgstore.Store
	t       *testing.T
	url     string
	log     *lockedBuffer
	metrics *prometheus.Registry
	ready   *[]string
	check   validator.Validator
}

type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.Lock()
	defer b.Unlock()
	return b.String()
}

func newHouse(t *testing.T, change ...func(*admin.Options)) *house {
	t.Helper()
	store, err := pgstore.Open(t.Context(), pgtest.New(t), pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	registry, err := channels.NewRegistry(
		channels.Entry{Name: "mail", Type: "smtp", Settings: channels.Settings{Concurrency: 4, MaxAttempts: 5, MaxAge: time.Hour}, Channel: declared{contract: channels.Contract{
			Guarantee: channels.DuplicateVisible, KeyFormat: "hex", LookUp: channels.LookUpNone, AttemptTimeout: time.Minute,
		}}},
		channels.Entry{Name: "hooks", Type: "webhook", Settings: channels.Settings{Concurrency: 1, MaxAttempts: 1}, Channel: declared{contract: channels.Contract{
			Guarantee: channels.Keyed, KeyField: "Idempotency-Key", KeyFormat: "hex", KeyWindow: 24 * time.Hour, LookUp: channels.LookUpNone, AttemptTimeout: time.Minute,
		}}})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Store: store, t: t, log: &lockedBuffer{}, metrics: prometheus.NewRegistry(), ready: new([]string)}
	o := admin.Options{
		Addr: "0.0.0.0:8080", Version: "test", Ledger: store, Channels: registry, Tokens: tokensFile(t),
		RecipientHashes: func(r string) [][]byte { return [][]byte{hash(r), hash(strings.ToLower(r))} },
		Ready:           func(context.Context) []string { return *h.ready },
		Gatherer:        h.metrics, Registerer: h.metrics, Log: slog.New(slog.NewJSONHandler(h.log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	handler, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = admin.NewServer(handler, o.Log)
	server.Start()
	t.Cleanup(server.Close)
	h.url = server.URL
	h.check = h.openAPI()
	return h
}

// openAPI makes a validator of the document that the API serves.
func (h *house) openAPI() validator.Validator {
	h.t.Helper()
	res := h.do("/openapi.json", tokenAdmin)
	document, err := libopenapi.NewDocument(res.body)
	if err != nil {
		h.t.Fatal(err)
	}
	v, errs := validator.NewValidator(document, config.WithFormatAssertions())
	if len(errs) > 0 {
		h.t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		h.t.Fatalf("the OpenAPI document is not valid: %v", problems)
	}
	return v
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// get asks for a path and checks the answer against the document.
func (h *house) get(path, token string) answer {
	h.t.Helper()
	a := h.do(path, token)
	req, err := http.NewRequest(http.MethodGet, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if ok, problems := h.check.ValidateHttpResponse(req, &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}); !ok {
		for _, p := range problems {
			h.t.Errorf("GET %s: answer %d is not what the OpenAPI document says: %s: %s\n%s", path, a.status, p.Message, p.Reason, a.body)
		}
	}
	return a
}

func (h *house) do(path, token string, change ...func(*http.Request)) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, body}
}

// read asks for a path, expects 200 and decodes the answer.
func read[T any](h *house, path, token string) (v T) {
	h.t.Helper()
	a := h.get(path, token)
	if a.status != http.StatusOK {
		h.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		h.t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

// problem asks for a path and expects that status, as a problem.
func (h *house) problem(path, token string, status int) admin.Problem {
	h.t.Helper()
	a := h.get(path, token)
	var p admin.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != status || p.Status != status || p.Detail == "" || p.Hint == "" ||
		a.header.Get("Content-Type") != "application/problem+json" || p.RequestID != a.header.Get("X-Request-Id") {
		h.t.Errorf("GET %s: %d %s %s, want the problem %d with detail, hint and request id", path, a.status, a.header.Get("Content-Type"), a.body, status)
	}
	return p
}

// admit admits requests and returns their intents.
func (h *house) admit(as ...intents.Admission) (ids []uuid.UUID) {
	h.t.Helper()
	verdicts, err := h.Admit(h.t.Context(), intenttest.Batch(as...))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Kind != intents.Accepted {
			h.t.Fatalf("verdict %s", v.Kind)
		}
		ids = append(ids, v.Intent)
	}
	return ids
}

// send claims the one intent that is due on the channel and settles it.
func (h *house) send(channel string, settle func(intents.Claim, string) intents.Settlement) uuid.UUID {
	h.t.Helper()
	claims, err := h.Claim(h.t.Context(), intenttest.Wish(channel, intenttest.Me, 1))
	if err != nil || len(claims) != 1 {
		h.t.Fatalf("%d claims, %v", len(claims), err)
	}
	if _, err := h.Settle(h.t.Context(), []intents.Settlement{settle(claims[0], intenttest.Me)}, nil); err != nil {
		h.t.Fatal(err)
	}
	return claims[0].ID
}

// of puts a request under another caller.
func of(caller string) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Identity.Caller = caller }
}

// to changes the recipient.
func to(recipient string) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Meaning.Recipient = recipient }
}
