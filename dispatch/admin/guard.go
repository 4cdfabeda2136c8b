package admin

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

type contextKey int

const (
	keyRequestID contextKey = iota
	keyPrincipal
)

// requestID returns the id of the request that ctx belongs to; "" outside of one.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(keyRequestID).(string)
	return id
}

// principal returns who asks. Outside of an authenticated request that is the zero Principal, who sees nothing.
func principal(ctx context.Context) Principal {
	if p, ok := ctx.Value(keyPrincipal).(*Principal); ok {
		return *p
	}
	return Principal{}
}

// guarded wraps the routes; the first line is the outermost.
func (s *server) guarded(routes http.Handler) http.Handler {
	h := routes
	h = s.bounded(h)
	h = s.authenticated(h)
	h = s.hosted(h)
	h = s.recovered(h)
	h = headed(h)
	h = s.logged(h)
	return identified(h)
}

var foreignRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identified gives the request an id: the caller's own if it is harmless.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !foreignRequestID.MatchString(id) {
			id = rand.Text()
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), keyRequestID, id)))
	})
}

// logged writes one line per request. It names the route, never the path or the query: recipients are searched for there.
func (s *server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		rec := &recorder{ResponseWriter: w}
		who := &Principal{} // authenticated fills it in
		next.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), keyPrincipal, who)))
		took := time.Since(begin)
		route := s.route(r)
		s.metrics.observe(route, rec.status, took)
		level := slog.LevelInfo
		if route == "GET /healthz" || route == "GET /readyz" || route == "GET /metrics" {
			level = slog.LevelDebug
		}
		s.log.LogAttrs(r.Context(), level, "admin request",
			slog.String("request_id", requestID(r.Context())), slog.String("method", cut(r.Method)), slog.String("route", route),
			slog.Int("status", rec.status), slog.Int("bytes", rec.bytes), slog.Duration("took", took),
			slog.String("token", who.Name), slog.String("remote", r.RemoteAddr))
	})
}

// route names the route that serves r, for metrics: one of few.
func (s *server) route(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	if pattern == "/" || pattern == "" {
		return "none"
	}
	return pattern
}

func cut(s string) string { return s[:min(len(s), 200)] }

// headed sets the headers that keep a browser from making more of an answer than data.
func headed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recovered turns a panic into a 500. The stack goes to the log, without the request.
func (s *server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				s.log.ErrorContext(r.Context(), "panic in the admin API", "request_id", requestID(r.Context()), "stack", string(debug.Stack()))
				problem(http.StatusInternalServerError, "Something went wrong here.", "The log has more under this request id.").write(w, r)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// hosted refuses requests that a web page sent here by giving this machine a name of its own (DNS rebinding): where no token
// protects the answer, only loopback names are answered.
func (s *server) hosted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.free(r.URL.Path) && s.local && !loopback(r.Host) {
			s.metrics.authFailure.WithLabelValues("foreign-host").Inc()
			problem(http.StatusMisdirectedRequest, "This address is answered under a loopback name only.",
				"Use http://127.0.0.1 or http://localhost, or set ONEBELL_ADMIN_TOKENS_FILE.").write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// free reports whether a path is answered without a token.
func (s *server) free(path string) bool {
	return s.open || path == "/healthz" || path == "/readyz" || path == "/metrics" && s.local
}

// authenticated finds out who asks. Whatever is wrong with a token is answered in one way.
func (s *server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := Principal{Name: "local", Role: Admin, Caller: everyCaller}
		if !s.open {
			var reason string
			if who, reason = s.identify(r); reason != "" && !s.free(r.URL.Path) {
				s.metrics.authFailure.WithLabelValues(reason).Inc()
				w.Header().Set("WWW-Authenticate", `Bearer realm="onebell"`)
				problem(http.StatusUnauthorized, "This needs a valid token.",
					"Send the header Authorization: Bearer TOKEN with a token of ONEBELL_ADMIN_TOKENS_FILE.").write(w, r)
				return
			}
		}
		if p, ok := r.Context().Value(keyPrincipal).(*Principal); ok {
			*p = who
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) identify(r *http.Request) (Principal, string) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Principal{}, "no-token"
	}
	who, ok := s.Tokens.identify(token)
	if !ok {
		return Principal{}, "bad-token"
	}
	return who, ""
}

// bounded bounds a request's body, its time, and how many read at once.
func (s *server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			select {
			case s.slots <- struct{}{}:
				defer func() { <-s.slots }()
			case <-ctx.Done():
				w.Header().Set("Retry-After", "5")
				problem(http.StatusServiceUnavailable, "Too many requests are reading at the moment.", "Try again in a few seconds.").write(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
