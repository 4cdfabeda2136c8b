package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onebell/onebell/channels"
)

// Options is what the API is made of. Everything is required, Tokens excepted.
type Options struct {
	Addr     string // that the listener will have; decides whether Tokens may be missing
	Version  string
	Ledger   Ledger
	Channels *channels.Registry
	Tokens   *Tokens // nil: nobody needs a token; on loopback only

	// RecipientHashes returns the hashes under which a recipient may be stored: of its form as given, and of the forms that
	// channels normalise it to.
	RecipientHashes func(recipient string) [][]byte
	// Ready returns the reasons why this process should not be given work, each a sentence without secrets: it is shown to
	// anybody. Empty: ready.
	Ready func(context.Context) []string

	Gatherer   prometheus.Gatherer   // shown at /metrics
	Registerer prometheus.Registerer // takes the API's own metrics
	Log        *slog.Logger
}

type server struct {
	Options
	log     *slog.Logger
	open    bool // no token is asked for
	local   bool // the listener is on loopback
	slots   chan struct{}
	metrics metrics
	mux     *http.ServeMux
}

// Bounds of what one API costs the rest of the process.
const (
	maxReads    = 4                // requests that read the ledger at the same time; the others wait for their turn
	readTimeout = 10 * time.Second // of one request, the waiting included
	maxBody     = 64 << 10         // bytes; no route reads one
)

// New returns the API as one handler. It refuses options that would open it to other machines without a token.
func New(o Options) (http.Handler, error) {
	if o.Ledger == nil || o.Channels == nil || o.RecipientHashes == nil || o.Ready == nil || o.Gatherer == nil || o.Registerer == nil || o.Log == nil {
		return nil, errors.New("admin: an option is missing")
	}
	if err := CheckExposure(o.Addr, o.Tokens); err != nil {
		return nil, err
	}
	s := &server{
		Options: o, log: o.Log, open: o.Tokens == nil, local: loopback(o.Addr),
		slots: make(chan struct{}, maxReads), mux: http.NewServeMux(),
	}
	var err error
	if s.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, err
	}
	api := humago.New(s.mux, s.config())
	api.UseMiddleware(s.strictQuery)
	s.routes(api)
	document, err := json.Marshal(api.OpenAPI())
	if err != nil {
		return nil, err
	}
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document)
	})
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}))
	s.mux.HandleFunc("/", s.noRoute)
	return s.guarded(s.mux), nil
}

func (s *server) config() huma.Config {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[Problem]())
	// The standard encoding escapes markup, too: huma's own leaves it as it is.
	format := huma.Format{Marshal: func(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }, Unmarshal: json.Unmarshal}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "onebell admin API", Version: s.Version,
				Description: "What became of a notification, why, and what to do next. Times are UTC. Errors are RFC 9457 problems.",
			},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "A token of ONEBELL_ADMIN_TOKENS_FILE. Not asked for where the API listens on loopback without one."},
				},
			},
			Security: []map[string][]string{{"token": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{asProblems},
	}
}

// routes is the whole API.
func (s *server) routes(api huma.API) {
	get(api, "list-intents", "/v1/intents", "List intents, newest first", s.listIntents)
	get(api, "get-intent", "/v1/intents/{id}", "One intent, with attempts, evidence, timeline and what it all means", s.getIntent)
	get(api, "list-refusals", "/v1/refusals", "List requests that were not admitted, newest first", s.listRefusals)
	get(api, "list-channels", "/v1/channels", "Channels: what each can promise, its limits, whether it is paused", s.listChannels)
	get(api, "get-stats", "/v1/stats", "Counts by channel and state", s.getStats)
	s.health(api)
}

func get[I, O any](api huma.API, id, path, summary string, handler func(context.Context, *I) (*O, error)) {
	huma.Register(api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary}, handler)
}

// NewServer returns a server for the handler with bounds on everything that a slow or hostile client could stretch.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      readTimeout + 20*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
