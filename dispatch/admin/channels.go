package admin

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// Channel is a channel instance: what it can promise, its limits, and whether it sends at the moment.
type Channel struct {
	Name       string           `json:"name"`
	Type       string           `json:"type" doc:"Empty where this process does not know the channel."`
	Configured bool             `json:"configured" doc:"False: it has a stored state, but this process does not serve it."`
	Contract   *Contract        `json:"contract,omitempty"`
	Settings   *ChannelSettings `json:"settings,omitempty"`
	Paused     bool             `json:"paused"`
	Pause      *ChannelPause    `json:"pause,omitempty"`
}

// Contract is what a channel can promise. Durations are written as in 1h30m0s; absent ones do not apply.
type Contract struct {
	Guarantee          string   `json:"guarantee" enum:"keyed,replaceable,duplicate-visible"`
	KeyField           string   `json:"key_field"`
	KeyFormat          string   `json:"key_format"`
	KeyWindow          string   `json:"key_window,omitempty" doc:"How long the provider remembers a key."`
	KeyScope           string   `json:"key_scope" doc:"Fingerprint of what the provider's memory of keys hangs on."`
	CollapseField      string   `json:"collapse_field"`
	CollapseFormat     string   `json:"collapse_format"`
	CollapseScope      string   `json:"collapse_scope" doc:"What a repeat replaces: undelivered, shown; empty: nothing."`
	LookUp             string   `json:"look_up" enum:"none,pull,events"`
	AttemptTimeout     string   `json:"attempt_timeout"`
	MaxContentBytes    int      `json:"max_content_bytes" doc:"0: the broker's limit alone."`
	MinTTL             string   `json:"min_ttl,omitempty"`
	MaxTTL             string   `json:"max_ttl,omitempty"`
	DeadRecipientCodes []string `json:"dead_recipient_codes" nullable:"false"`
	MisconfiguredCodes []string `json:"misconfigured_codes" nullable:"false"`
}

// ChannelSettings are the operator's limits.
type ChannelSettings struct {
	Concurrency int     `json:"concurrency"`
	Rate        float64 `json:"rate" doc:"Sends per second; 0: no limit."`
	MaxAttempts int     `json:"max_attempts"`
	MaxAge      string  `json:"max_age,omitempty"`
	OnUnknown   string  `json:"on_unknown" doc:"Replaceable channels: resend or hold."`
}

// ChannelPause is why a channel does not send, or did not.
type ChannelPause struct {
	Code   string     `json:"code"`
	Reason string     `json:"reason"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until" doc:"Null: until somebody resumes it."`
	Hint   string     `json:"hint"`
}

type listChannelsOutput struct {
	Body ChannelList
}

// ChannelList is all channels, by name.
type ChannelList struct {
	Channels []Channel `json:"channels" nullable:"false"`
}

func (s *server) listChannels(ctx context.Context, _ *struct{}) (*listChannelsOutput, error) {
	states, err := s.Ledger.ChannelStates(ctx)
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	stored := map[string]intents.ChannelState{}
	for _, st := range states {
		stored[st.Channel] = st
	}
	out := &listChannelsOutput{Body: ChannelList{Channels: []Channel{}}}
	for _, e := range s.Channels.All() {
		c := Channel{Name: e.Name, Type: e.Type, Configured: true, Contract: viewContract(e.Channel.Contract()), Settings: viewSettings(e.Settings)}
		c.pausedBy(stored[e.Name])
		out.Body.Channels = append(out.Body.Channels, c)
	}
	for _, st := range states {
		if _, known := s.Channels.Lookup(st.Channel); !known {
			c := Channel{Name: st.Channel}
			c.pausedBy(st)
			out.Body.Channels = append(out.Body.Channels, c)
		}
	}
	return out, nil
}

func (c *Channel) pausedBy(st intents.ChannelState) {
	if !st.Paused {
		return
	}
	c.Paused = true
	c.Pause = &ChannelPause{
		Code: st.Code, Reason: st.Reason, Since: st.Since.UTC(), Until: moment(st.PausedUntil),
		Hint: "Mend what the code names; onebell doctor checks the channel. Attempts are not used up meanwhile.",
	}
}

func viewContract(c channels.Contract) *Contract {
	return &Contract{
		Guarantee: string(c.Guarantee), KeyField: c.KeyField, KeyFormat: c.KeyFormat, KeyWindow: length(c.KeyWindow), KeyScope: c.KeyScope,
		CollapseField: c.CollapseField, CollapseFormat: c.CollapseFormat, CollapseScope: string(c.CollapseScope), LookUp: string(c.LookUp),
		AttemptTimeout: length(c.AttemptTimeout), MaxContentBytes: c.MaxContentBytes, MinTTL: length(c.MinTTL), MaxTTL: length(c.MaxTTL),
		DeadRecipientCodes: append([]string{}, c.DeadRecipientCode...), MisconfiguredCodes: append([]string{}, c.MisconfiguredCode...),
	}
}

func viewSettings(st channels.Settings) *ChannelSettings {
	return &ChannelSettings{
		Concurrency: st.Concurrency, Rate: st.Rate, MaxAttempts: st.MaxAttempts, MaxAge: length(st.MaxAge), OnUnknown: string(st.OnUnknown),
	}
}

func length(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status  string   `json:"status" enum:"ok,not-ready"`
	Reasons []string `json:"reasons" nullable:"false"`
}

type healthOutput struct {
	Status int
	Body   Health
}

// health: alive says that this process answers; ready, that it should be given work. Neither asks for a token.
func (s *server) health(api huma.API) {
	body := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Health](), true, "")
	notReady := map[string]*huma.Response{"503": {
		Description: "Not ready, and why.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: body}},
	}}
	open := []map[string][]string{}
	huma.Register(api, huma.Operation{
		OperationID: "healthz", Method: http.MethodGet, Path: "/healthz", Summary: "Does this process answer?", Security: open,
	}, func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{Status: http.StatusOK, Body: Health{Status: "ok", Reasons: []string{}}}, nil
	})
	huma.Register(api, huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Summary: "Should this process be given work, and if not, why?",
		Security: open, Responses: notReady,
	}, func(ctx context.Context, _ *struct{}) (*healthOutput, error) {
		if reasons := s.reasons(ctx); len(reasons) > 0 {
			return &healthOutput{Status: http.StatusServiceUnavailable, Body: Health{Status: "not-ready", Reasons: reasons}}, nil
		}
		return &healthOutput{Status: http.StatusOK, Body: Health{Status: "ok", Reasons: []string{}}}, nil
	})
}

// reasons also reports a tokens file that went wrong: the tokens read before are still in use then.
func (s *server) reasons(ctx context.Context) []string {
	reasons := s.Ready(ctx)
	if s.Tokens != nil {
		if err := s.Tokens.Refresh(); err != nil {
			reasons = append(reasons, err.Error()+"; the tokens read before are in use")
		}
	}
	return reasons
}

// noRoute answers what no route takes.
func (s *server) noRoute(w http.ResponseWriter, r *http.Request) {
	asGet := r.Clone(r.Context())
	asGet.Method = http.MethodGet
	if _, pattern := s.mux.Handler(asGet); pattern != "/" && pattern != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		problem(http.StatusMethodNotAllowed, "This can be read only.", "Use GET.").write(w, r)
		return
	}
	hint := "GET /openapi.json lists the routes."
	if strings.HasPrefix(r.URL.Path, "/v1/intents/") {
		hint = "GET /v1/intents/{id} takes the id of an intent; GET /v1/intents?channel=…&key=… finds it by its key."
	}
	problem(http.StatusNotFound, "There is no such route.", hint).write(w, r)
}
