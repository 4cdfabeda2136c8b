package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/kelseyhightower/envconfig"
)

// variable describes one environment variable.
type variable struct {
	Name    string
	Default string
	Meaning string
	Value   string // effective, secrets struck out
}

// describe lists the variables that envconfig reads for spec under prefix. It asks envconfig itself, so that the reference,
// the check for unknown names and the reading can never disagree.
func describe(prefix string, spec any) ([]variable, error) {
	const us = "\x1f"
	var out bytes.Buffer
	format := "{{range .}}{{usage_key .}}" + us + "{{usage_default .}}" + us + "{{usage_description .}}" + us + "{{.Field}}\n{{end}}"
	if err := envconfig.Usagef(prefix, spec, &out, format); err != nil {
		return nil, fmt.Errorf("listing the variables of %s: %w", prefix, err)
	}
	var vars []variable
	for line := range strings.Lines(out.String()) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), us)
		vars = append(vars, variable{Name: part[0], Default: part[1], Meaning: part[2], Value: part[3]})
	}
	return vars, nil
}

// kubernetes matches what Kubernetes injects for a Service called onebell, or onebell-something.
var (
	kubernetes     = regexp.MustCompile(`^ONEBELL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)$`)
	kubernetesPort = regexp.MustCompile(`^(tcp|udp|sctp)://`) // the value of ONEBELL_PORT, which nobody else would set so
)

func injectedByKubernetes(name, value string) bool {
	return kubernetes.MatchString(name) || strings.HasSuffix(name, "_PORT") && kubernetesPort.MatchString(value)
}

// unknownNames returns a sentence for each ONEBELL_ variable that is set and not among known.
func unknownNames(known []string) []string {
	var out []string
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "ONEBELL_") || slices.Contains(known, name) || injectedByKubernetes(name, value) {
			continue
		}
		what := "is not a variable of onebell"
		if strings.HasPrefix(name, channelPrefix) {
			what = "is not a variable of an instance in ONEBELL_CHANNELS"
		}
		out = append(out, fmt.Sprintf("%s %s; did you mean %s?", printable(name), what, nearest(name, known)))
	}
	slices.Sort(out)
	return out
}

// printable keeps a name that somebody else chose from breaking the line it is shown in.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '?'
	}, name)
}

// nearest returns the candidate with the fewest edits from name.
func nearest(name string, candidates []string) string {
	best, fewest := "", -1
	for _, c := range candidates {
		if d := edits(name, c); fewest < 0 || d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
