package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// conditions are what the figures were measured on.
type conditions struct {
	Machine     string `json:"machine"`
	Go          string `json:"go"`
	PostgreSQL  int    `json:"postgresql"`
	NATS        string `json:"nats_server"`
	Dispatchers int    `json:"dispatchers"`
	Parallel    int    `json:"rounds_at_the_same_time"`
	Facts       int    `json:"facts_per_round"`
	Lease       string `json:"lease"`
}

func conditionsOf(o options, postgres int) conditions {
	return conditions{
		Machine: fmt.Sprintf("%d × %s, %s/%s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH), Go: runtime.Version(), PostgreSQL: postgres,
		NATS: server.VERSION, Dispatchers: dispatchers, Parallel: o.parallel, Facts: facts, Lease: leaseTime.String(),
	}
}

func (c conditions) rows(row func(what string, is ...any)) {
	row("machine", c.Machine)
	row("versions", fmt.Sprintf("Go %s, PostgreSQL %d, nats-server %s", strings.TrimPrefix(c.Go, "go"), c.PostgreSQL, c.NATS))
	row("each round", fmt.Sprintf("%d dispatchers, %d facts told one to sixty times, lease %s, %v of faults; %d rounds at the same time",
		c.Dispatchers, c.Facts, c.Lease, chaosTime, c.Parallel))
}

// processor is what Linux calls it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor"
	}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		if name, value, ok := strings.Cut(scan.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor"
}
