package intents

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// parsed returns the package's documentation, tests left out.
func parsed(t *testing.T) *doc.Package {
	t.Helper()
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".go") || strings.HasSuffix(name.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/onebell/onebell/intents")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// block returns the indented lines below a heading of the package comment.
func block(t *testing.T, heading string) []string {
	t.Helper()
	_, text, ok := strings.Cut(parsed(t).Doc, "# "+heading+"\n")
	if !ok {
		t.Fatalf("doc.go has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n# ")
	var lines []string
	for line := range strings.Lines(text) {
		if indented, ok := strings.CutPrefix(line, "\t"); ok {
			lines = append(lines, strings.TrimRight(indented, "\n"))
		}
	}
	return lines
}

// draw makes the drawing: from each state one line an edge, the cause on it, the arrow's head in one column.
func draw(edges []Edge) []string {
	var out []string
	for i, e := range edges {
		from := strings.ToUpper(string(e.From))
		if from == "" {
			from = "request"
		}
		first := i == 0 || edges[i-1].From != e.From
		last := i == len(edges)-1 || edges[i+1].From != e.From
		stem := "├"
		switch {
		case first && last:
			stem = "─"
		case first:
			stem = "┬"
		case last:
			stem = "└"
		}
		if !first {
			from = ""
		}
		for j, part := range strings.Split(e.Cause, "; ") {
			switch {
			case j == 0:
				out = append(out, fmt.Sprintf("%-10s%s─→ %-12s%s", from, stem, strings.ToUpper(string(e.To)), part))
			case last:
				out = append(out, strings.Repeat(" ", 26)+part)
			default:
				out = append(out, fmt.Sprintf("%-10s│%-15s%s", "", "", part))
			}
		}
	}
	return out
}

func TestTheDrawingIsTheTable(t *testing.T) {
	got, want := strings.Join(block(t, "States"), "\n"), strings.Join(draw(Edges()), "\n")
	if got != want {
		t.Errorf("doc.go draws\n%s\nbut the table is\n%s", got, want)
	}
}

func TestTheContractTableIsWhatNextDoes(t *testing.T) {
	lines := block(t, "Contract and outcome")
	if len(lines) != 8 {
		t.Fatalf("the table has %d lines", len(lines))
	}
	head := strings.Fields(lines[0])[1:]
	for _, line := range lines[1:] {
		name := strings.TrimSpace(line[:15])
		cells := strings.Fields(line[15:])
		for i, guarantee := range head {
			p, c := plain(channels.Guarantee(guarantee)), plainClaim()
			c.Guarantee = p.Contract.Guarantee
			got := Next(p, c, outcome(name), origin, 0.5).To()
			if name == "lease over" {
				got = AfterLease(p, c, origin).To()
			}
			if strings.ToUpper(string(got)) != cells[i] {
				t.Errorf("%s on a %s channel: %s, the table says %s", name, guarantee, got, cells[i])
			}
		}
	}
}

// plain is a policy with room for everything.
func plain(g channels.Guarantee) Policy {
	return NewPolicy(
		channels.Contract{Guarantee: g, KeyWindow: 24 * time.Hour, KeyScope: "scope", AttemptTimeout: 10 * time.Second},
		channels.Settings{MaxAttempts: 5, MaxAge: 24 * time.Hour},
	)
}

func plainClaim() Claim {
	return Claim{CreatedAt: origin, DueSince: origin, ClaimedAt: origin, FirstUsedAt: origin, KeyScope: "scope"}
}

func outcome(name string) channels.Outcome {
	switch name {
	case "accepted":
		return channels.OutcomeAccepted("provider-1", "250", "taken")
	case "refused":
		return channels.OutcomeRefused("550", "no such user")
	case "not-sent":
		return channels.OutcomeNotSent(channels.PhaseConnect, "dial", "refused")
	case "throttled":
		return channels.OutcomeThrottled(0, "429", "slowly")
	case "misconfigured":
		return channels.OutcomeMisconfigured(channels.PhaseConnect, "535", "bad credentials")
	}
	return channels.OutcomeUnknown(channels.PhaseCommitted, "eof", "the connection broke")
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	p := parsed(t)
	values := append([]*doc.Value{}, p.Consts...)
	values = append(values, p.Vars...)
	funcs := append([]*doc.Func{}, p.Funcs...)
	for _, typ := range p.Types {
		if typ.Doc == "" {
			t.Errorf("type %s has no comment", typ.Name)
		}
		values = append(append(values, typ.Consts...), typ.Vars...)
		funcs = append(append(funcs, typ.Funcs...), typ.Methods...)
	}
	for _, f := range funcs {
		if f.Doc == "" {
			t.Errorf("func %s has no comment", f.Name)
		}
	}
	for _, v := range values {
		for _, spec := range v.Decl.Specs {
			s := spec.(*ast.ValueSpec)
			alone := len(v.Decl.Specs) == 1 && v.Doc != ""
			if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil && !alone {
				t.Errorf("%s has no comment", s.Names[0].Name)
			}
		}
	}
}
