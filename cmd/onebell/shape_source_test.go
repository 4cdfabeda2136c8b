package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source is one Go file of the module.
type source struct {
	path string // from the module's root
	set  *token.FileSet
	file *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) lines(from, to token.Pos) int {
	return s.set.Position(to).Line - s.set.Position(from).Line + 1
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{strings.TrimPrefix(filepath.ToSlash(path), "../../"), set, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

// compositions are the functions that may be longer than 50 lines (90 at most), because they read as one list of steps.
var compositions = map[string]string{}

func TestFilesAndFunctionsStayReadable(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		limit := 300
		if s.isTest() {
			limit = 400
		}
		if n := s.lines(s.file.FileStart, s.file.FileEnd) - 1; n > limit {
			t.Errorf("%s has %d lines, %d at most", s.path, n, limit)
		}
		if s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name, limit := filepath.Dir(s.path)+"."+f.Name.Name, 50
			if _, ok := compositions[name]; ok {
				used[name], limit = true, 90
			}
			if n := s.lines(f.Pos(), f.End()); n > limit {
				t.Errorf("%s: %s has %d lines, %d at most", s.path, f.Name.Name, n, limit)
			}
		}
	}
	for name := range compositions {
		if !used[name] {
			t.Errorf("there is no function %s any more; take it out of the exceptions", name)
		}
	}
}

// What nobody may write.
func TestForbiddenCalls(t *testing.T) {
	for _, s := range sources(t) {
		test := s.isTest() || slices.Contains(kits, path.Dir(s.path))
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && !test {
				if reason := forbidden(fmt.Sprint(sel.X), sel.Sel.Name); reason != "" {
					t.Errorf("%s: %s", s.set.Position(call.Pos()), reason)
				}
			}
			return true
		})
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: an init function; register by hand", s.path)
			}
		}
		for _, pos := range skips(s.file, nil) {
			t.Errorf("%s: a test that is skipped proves nothing; make it fail", s.set.Position(pos))
		}
	}
}

func forbidden(on, name string) string {
	switch {
	case on == "time" && name == "Sleep":
		return "time.Sleep: wait for a signal, or for a timer beside the context"
	case on == "slog" && slices.Contains([]string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log"}, name):
		return "slog's default logger: take a *slog.Logger"
	}
	return ""
}

// skips finds calls of Skip on the parameters of package testing. Those of package rapid discard an action, not a test.
func skips(n ast.Node, tests map[string]bool) (found []token.Pos) {
	ast.Inspect(n, func(child ast.Node) bool {
		var kind *ast.FuncType
		var body *ast.BlockStmt
		switch f := child.(type) {
		case *ast.FuncDecl:
			kind, body = f.Type, f.Body
		case *ast.FuncLit:
			kind, body = f.Type, f.Body
		case *ast.CallExpr:
			if sel, ok := f.Fun.(*ast.SelectorExpr); ok && tests[fmt.Sprint(sel.X)] && strings.HasPrefix(sel.Sel.Name, "Skip") {
				found = append(found, f.Pos())
			}
		}
		if body == nil {
			return true
		}
		inner := maps.Clone(tests)
		if inner == nil {
			inner = map[string]bool{}
		}
		for _, field := range kind.Params.List {
			for _, name := range field.Names {
				inner[name.Name] = ofTesting(field.Type)
			}
		}
		found = append(found, skips(body, inner)...)
		return false
	})
	return found
}

// ofTesting reports whether the type is one of package testing, or a pointer to one.
func ofTesting(typ ast.Expr) bool {
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	sel, ok := typ.(*ast.SelectorExpr)
	return ok && fmt.Sprint(sel.X) == "testing"
}

func TestSkipsAreFound(t *testing.T) {
	const text = `package p
func TestA(t *testing.T) { t.Skip("no") ; rapid.Check(t, func(t *rapid.T) { t.Skip("fine") }); t.Run("", func(t *testing.T) { t.SkipNow() }) }
func helper(tb testing.TB) { if true { tb.Skipf("no") } }`
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(skips(file, nil)); n != 3 {
		t.Errorf("%d skips found, want 3", n)
	}
}

func TestNoLooseEnds(t *testing.T) {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b|//no` + `lint`)
	for _, s := range sources(t) {
		raw, err := os.ReadFile(filepath.Join("../..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		if mark := marks.Find(raw); mark != nil {
			t.Errorf("%s holds %q; finish it, or file an issue", s.path, mark)
		}
	}
}
