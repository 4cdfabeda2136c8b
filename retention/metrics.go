package retention

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onebell/onebell/intents"
)

// metrics are the purger's collectors. Ages are those of the last look and grow on their own from there: one that nobody can look up
// any more does not stand still.
type metrics struct {
	oldest    *ages // kind
	window    *prometheus.GaugeVec
	deleted   *prometheus.CounterVec // kind
	failures  *prometheus.CounterVec // step
	watermark *ages
}

// Steps of a round beside the kinds.
const (
	clockStep     = "clock"
	watermarkStep = "watermark"
)

func newMetrics(reg prometheus.Registerer, w Windows) *metrics {
	m := &metrics{
		oldest: newAges("purge_oldest_seconds", "Age of the oldest row that may go and is still there, of those looked at; 0: there is none.", "kind"),
		window: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "onebell", Name: "purge_window_seconds", Help: "How long this process keeps things.",
		}, []string{"kind"}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "onebell", Name: "purged_total", Help: "Rows deleted: facts with their keys, contents, intents with what is recorded of them, refusals.",
		}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "onebell", Name: "purge_failures_total", Help: "Steps of a purge that failed; they are tried again in the next round.",
		}, []string{"step"}),
		watermark: newAges("watermark_age_seconds", "How far the watermark is behind the database's clock: what is older is refused unless its key is remembered."),
	}
	for _, kind := range intents.PurgeKinds() {
		m.window.WithLabelValues(string(kind)).Set(w.of(kind).Seconds())
		m.deleted.WithLabelValues(string(kind))
		m.failures.WithLabelValues(string(kind))
	}
	m.failures.WithLabelValues(clockStep)
	m.failures.WithLabelValues(watermarkStep)
	if reg != nil {
		reg.MustRegister(m.oldest, m.window, m.deleted, m.failures, m.watermark)
	}
	return m
}

// ages is a gauge of ages that grow between looks.
type ages struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	seen map[string]sighting // by label; one without a label is ""
	bare bool
}

type sighting struct {
	age time.Duration
	at  time.Time // local, with its monotonic reading
}

func newAges(name, help string, label ...string) *ages {
	return &ages{desc: prometheus.NewDesc("onebell_"+name, help, label, nil), seen: map[string]sighting{}, bare: len(label) == 0}
}

// set notes an age seen just now; 0 does not grow.
func (a *ages) set(label string, age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[label] = sighting{age, time.Now()}
}

// Describe implements prometheus.Collector.
func (a *ages) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a *ages) Collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for label, s := range a.seen {
		var labels []string
		if !a.bare {
			labels = []string{label}
		}
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, s.grown(time.Now()).Seconds(), labels...)
	}
}

func (s sighting) grown(now time.Time) time.Duration {
	if s.age <= 0 {
		return 0
	}
	return s.age + now.Sub(s.at)
}
