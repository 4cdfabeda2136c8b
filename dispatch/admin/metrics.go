package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	authFailure *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (metrics, error) {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onebell_admin_requests_total", Help: "Requests to the admin API, by route and status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onebell_admin_request_seconds", Help: "Time to answer a request to the admin API, by route.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
		}, []string{"route"}),
		authFailure: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onebell_admin_auth_failures_total", Help: "Requests turned away, by reason: no-token, bad-token, foreign-host.",
		}, []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.authFailure} {
		if err := r.Register(c); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (m metrics) observe(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// recorder remembers the status that was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
