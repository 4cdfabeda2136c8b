package main

import (
	"errors"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onebell/onebell/intents/fault"
)

// A binary that was not built for it follows no fault plan.
func TestFaultPlansReachNoNormalBinary(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var plan []string
	for _, at := range fault.All() {
		plan = append(plan, killAtFirst(at))
	}
	ledger := filepath.Join(t.TempDir(), "ledger")
	d := s.serveAs(append(s.env(), "FAULT_PLAN="+strings.Join(plan, ","), "FAULT_LEDGER="+ledger))
	for _, channel := range s.channels {
		s.ask(channel)
	}
	s.ends(fates[settled])
	select {
	case <-d.done:
		t.Errorf("the dispatcher ended: %v", d.cmd.ProcessState)
	default:
	}
	if _, err := os.Stat(ledger); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a normal binary wrote a fault ledger (%v)", err)
	}
}

// What is compiled into a normal binary imports nothing, so it can neither read the environment nor signal anybody.
func TestFaultPointsOfANormalBuildDoNothing(t *testing.T) {
	normal, err := build.ImportDir("../../intents/fault", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(normal.Imports) > 0 || !slices.Equal(normal.GoFiles, []string{"fault.go", "off.go"}) {
		t.Errorf("a normal build has %q, which import %q; want fault.go and off.go, which import nothing", normal.GoFiles, normal.Imports)
	}
	tagged := build.Default
	tagged.BuildTags = append(tagged.BuildTags, "onebell_faults")
	faulty, err := tagged.ImportDir("../../intents/fault", 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(faulty.GoFiles, []string{"fault.go", "plan.go"}) {
		t.Errorf("a build with faults has %q, want fault.go and plan.go", faulty.GoFiles)
	}
}
