package dispatch_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// metric sums a counter or gauge over the series whose labels contain the given values.
func (d *running) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "onebell_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if text := fmt.Sprint(m.GetLabel()); containsAll(text, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, `"`+p+`"`) {
			return false
		}
	}
	return true
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// stacks counts the goroutines in whose stack the text occurs.
func stacks(text string) (n int) {
	buf := make([]byte, 1<<22)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, text) {
			n++
		}
	}
	return n
}
