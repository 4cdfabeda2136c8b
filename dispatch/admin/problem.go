package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Problem is an error as RFC 9457 has it. The client returns it as an error, too.
type Problem struct {
	Type      string    `json:"type" doc:"A URI reference that names the kind of problem; about:blank when the status says it all."`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Detail    string    `json:"detail" doc:"What is wrong with this request."`
	Hint      string    `json:"hint,omitempty" doc:"What to do about it, or what to run."`
	Errors    []Mistake `json:"errors,omitempty" nullable:"false"`
	RequestID string    `json:"request_id,omitempty" doc:"Stands in the access log, too."`
}

// Mistake is one thing that is wrong with a request. It names where, and never repeats the value.
type Mistake struct {
	Location string `json:"location" doc:"As in query.limit."`
	Message  string `json:"message"`
}

func (p *Problem) Error() string {
	parts := []string{p.Detail}
	for _, m := range p.Errors {
		parts = append(parts, m.Location+": "+m.Message)
	}
	if p.Hint != "" {
		parts = append(parts, p.Hint)
	}
	return strings.Join(parts, "; ")
}

// GetStatus makes a Problem an answer of huma's.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is RFC 9457's.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

func problem(status int, detail, hint string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Hint: hint}
}

// wrong is the problem of a request whose parameter does not do.
func wrong(location, message, hint string) *Problem {
	p := problem(http.StatusUnprocessableEntity, "The request has a parameter that does not do.", hint)
	p.Errors = []Mistake{{Location: location, Message: message}}
	return p
}

func absent() *Problem {
	return problem(http.StatusNotFound, "There is no such intent, or this token may not see it.",
		"Keys and intents are forgotten after their retention time; GET /v1/intents?channel=…&key=… looks one up by its key.")
}

// unread is the problem of a read that failed. What the database said goes to the log, never into the answer.
func (s *server) unread(ctx context.Context, err error) *Problem {
	s.log.ErrorContext(ctx, "the ledger could not be read", "request_id", requestID(ctx), "error", err)
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return problem(http.StatusServiceUnavailable, "The database did not answer in time.",
			"Narrow the question: name caller, channel and key, or since and until.")
	}
	return problem(http.StatusServiceUnavailable, "The database cannot be read at the moment.",
		"Try again; GET /readyz and onebell doctor say what is wrong.")
}

// asProblems turns what huma itself reports into problems of ours: no echo of values, no internals.
func asProblems(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		if p, is := v.(*Problem); is {
			p.RequestID = requestID(ctx.Context())
		}
		return v, nil
	}
	p := problem(m.Status, "The request has a parameter that does not do.", "GET /openapi.json lists the parameters.")
	if m.Status >= http.StatusInternalServerError {
		p = problem(m.Status, "Something went wrong here.", "The log has more under this request id.")
	} else {
		for _, e := range m.Errors {
			p.Errors = append(p.Errors, Mistake{Location: e.Location, Message: e.Message})
		}
	}
	p.RequestID = requestID(ctx.Context())
	return p, nil
}

// write answers outside of huma's routes.
func (p *Problem) write(w http.ResponseWriter, r *http.Request) {
	p.RequestID = requestID(r.Context())
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone; the access log has the rest
}
