package intents

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The model that .ci/spin checks has the edges of the code, each named where the model makes it, and no others.
func TestModelHasTheEdgesOfTheCode(t *testing.T) {
	model, err := os.ReadFile("protocol.pml")
	if err != nil {
		t.Fatal(err)
	}
	type pair struct{ from, to State }
	var modelled []pair
	for _, m := range regexp.MustCompile(`/\* edge: ([a-z]*) ?-> ([a-z]+) \*/`).FindAllStringSubmatch(string(model), -1) {
		modelled = append(modelled, pair{State(m[1]), State(m[2])})
	}
	var coded []pair
	for _, e := range Edges() {
		coded = append(coded, pair{e.From, e.To})
	}
	for _, p := range coded {
		if !slices.Contains(modelled, p) {
			t.Errorf("the model does not name %q -> %q", p.from, p.to)
		}
	}
	for _, p := range modelled {
		if !slices.Contains(coded, p) {
			t.Errorf("the model names %q -> %q, which the code does not have", p.from, p.to)
		}
	}
}
