package dispatch

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
)

// metrics are the dispatcher's collectors. Labels are closed sets: a channel that is not configured here is "unknown".
type metrics struct {
	verdicts           *prometheus.CounterVec // channel, verdict
	attempts           *prometheus.CounterVec // channel, result, phase
	attemptSeconds     *prometheus.HistogramVec
	settlements        *prometheus.CounterVec // channel, state
	possibleDuplicates *prometheus.CounterVec // channel
	fenced             *prometheus.CounterVec // channel
	takeovers          *prometheus.CounterVec // channel
	inFlight           *prometheus.GaugeVec   // channel
	breakerOpen        *prometheus.GaugeVec   // channel
	paused             *prometheus.GaugeVec   // channel
	naks               prometheus.Counter
	quarantined        prometheus.Counter
	restarts           prometheus.Counter
	storeErrors        *prometheus.CounterVec // call
	batchSize          *prometheus.HistogramVec
	admitLag           prometheus.Histogram
	pending            prometheus.Gauge
	inHand             *prometheus.GaugeVec
	published          prometheus.Counter
	relayErrors        prometheus.Counter
	relayLag           prometheus.Gauge

	known map[string]bool
}

func newMetrics(reg prometheus.Registerer, registry *channels.Registry, ready func() float64) *metrics {
	m := &metrics{
		verdicts:           counters("requests_total", "Answers to requests.", "channel", "verdict"),
		attempts:           counters("attempts_total", "Attempts by how they ended.", "channel", "result", "phase"),
		attemptSeconds:     histograms("attempt_seconds", "Length of attempts.", prometheus.DefBuckets, "channel"),
		settlements:        counters("settlements_total", "Settlements by the state they led to.", "channel", "state"),
		possibleDuplicates: counters("possible_duplicates_total", "Automatic resends after an unknown outcome.", "channel"),
		fenced:             counters("fenced_total", "Settlements that came after their claim was gone.", "channel"),
		takeovers:          counters("takeovers_total", "Leases that ran out and were taken over.", "channel"),
		inFlight:           gauges("in_flight", "Sends under way.", "channel"),
		breakerOpen:        gauges("breaker_open", "1 while the circuit breaker keeps the channel from sending.", "channel"),
		paused:             gauges("channel_paused", "1 while the channel is paused.", "channel"),
		storeErrors:        counters("store_errors_total", "Failed calls of the database.", "call"),
		batchSize: histograms("batch_size", "Requests or settlements in one statement.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500}, "what"),
		naks:        counter("naks_total", "Requests given back to the broker because the database could not take them."),
		quarantined: counter("quarantined_total", "Requests that could not be read, or made a step panic."),
		restarts:    counter("consumer_restarts_total", "Times that the consumer had to be looked up or created anew."),
		published:   counter("events_published_total", "Outcome events on the broker."),
		relayErrors: counter("relay_errors_total", "Failed rounds of publishing outcome events."),
		admitLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "onebell", Name: "admit_lag_seconds",
			Help: "From the broker's time of a request to its admission.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}),
		pending:  gauge("intake_pending", "Requests on the broker that are not admitted yet."),
		inHand:   gauges("intake_bytes", "Bytes of requests taken in and not answered yet.", "by"),
		relayLag: gauge("relay_lag_rows", fmt.Sprintf("Rows of the outbox seen in the last look, %d at most: where it stays there, more events wait.", relayRows)),
		known:    map[string]bool{},
	}
	for _, e := range registry.All() {
		m.known[e.Name] = true
		m.inFlight.WithLabelValues(e.Name).Set(0)
		m.paused.WithLabelValues(e.Name).Set(0)
		m.breakerOpen.WithLabelValues(e.Name).Set(0)
	}
	readiness := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "onebell", Name: "ready", Help: "1 when the dispatcher is ready."}, ready)
	if reg != nil {
		reg.MustRegister(m.verdicts, m.attempts, m.attemptSeconds, m.settlements, m.possibleDuplicates, m.fenced, m.takeovers,
			m.inFlight, m.breakerOpen, m.paused, m.naks, m.quarantined, m.restarts, m.storeErrors, m.batchSize, m.admitLag, m.pending, m.inHand,
			m.published, m.relayErrors, m.relayLag, readiness)
	}
	return m
}

func (m *metrics) channel(name string) string {
	if m.known[name] {
		return name
	}
	return "unknown"
}

func (m *metrics) verdict(channel string, kind wire.Verdict) {
	m.verdicts.WithLabelValues(m.channel(channel), string(kind)).Inc()
}

func (m *metrics) attempt(channel string, o channels.Outcome, took time.Duration) {
	phase := string(o.Phase())
	if phase == "" {
		phase = "none"
	}
	m.attempts.WithLabelValues(channel, o.Result().String(), phase).Inc()
	m.attemptSeconds.WithLabelValues(channel).Observe(took.Seconds())
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "onebell", Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "onebell", Name: name, Help: help})
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "onebell", Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "onebell", Name: name, Help: help})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "onebell", Name: name, Help: help, Buckets: buckets}, labels)
}
