package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/onebell/onebell"

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir, Doc, Name string
	Standard                   bool
	GoFiles                    []string
	Imports                    []string
	TestImports, XTestImports  []string
}

func (p goPackage) room() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// goList lists packages as the go command sees them, from the module's root.
func goList(args ...string) ([]goPackage, error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Doc,Name,Standard,GoFiles,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, &listError{err, stderr.String()}
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, nil
}

type listError struct {
	err    error
	stderr string
}

func (e *listError) Error() string { return "go list: " + e.err.Error() + "\n" + e.stderr }

var ourPackages = sync.OnceValues(func() ([]goPackage, error) { return goList("./...") })

func packages(t *testing.T) []goPackage {
	t.Helper()
	pkgs, err := ourPackages()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 5 {
		t.Fatalf("only %d packages listed", len(pkgs))
	}
	return pkgs
}

// rule says what a room may import, beside the standard library: rooms of ours, and modules by the beginning of their path.
type rule struct{ rooms, modules []string }

// rules is the house: a room that is not here may not exist, an import that is not here is forbidden. "*" ends a pattern.
var rules = map[string]rule{
	"dedup":            {nil, []string{"github.com/gowebpki/jcs"}},
	"channels":         {nil, []string{"code.dny.dev/ssrf"}},
	"channels/smtp":    {[]string{"channels"}, []string{"github.com/wneessen/go-mail", "golang.org/x/net/idna"}},
	"channels/webhook": {[]string{"channels"}, []string{"golang.org/x/net/idna"}},
	"channels/sandbox": {[]string{"channels"}, nil},
	"channels/fcm":     {[]string{"channels"}, []string{"firebase.google.com/go/v4", "google.golang.org/api/option", "golang.org/x/oauth2"}},
	"migrations":       {nil, []string{"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3"}},
	"intents":          {[]string{"dedup", "channels"}, []string{"github.com/google/uuid"}},
	"intents/fault":    {nil, nil},
	"intents/pgstore":  {[]string{"intents", "intents/fault", "dedup", "channels"}, []string{"github.com/jackc/pgx/v5", "github.com/google/uuid"}},
	"retention":        {[]string{"intents", "intents/fault", "dedup"}, []string{"github.com/prometheus/client_golang"}},
	"dispatch/wire":    {[]string{"dedup"}, nil},
	"dispatch/client":  {[]string{"dispatch/wire", "dedup"}, []string{"github.com/nats-io/nats.go"}},
	"dispatch/admin": {[]string{"intents", "dedup", "channels"}, []string{
		"github.com/danielgtaylor/huma/v2", "github.com/prometheus/client_golang", "github.com/google/uuid",
	}},
	"dispatch": {[]string{"dispatch/wire", "intents", "intents/fault", "dedup", "channels"}, []string{
		"github.com/nats-io/nats.go", "github.com/sony/gobreaker/v2", "golang.org/x/time/rate", "golang.org/x/sync", "github.com/prometheus/client_golang", "github.com/google/uuid",
	}},
	"deploy/local": {nil, []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "github.com/emersion/go-smtp", "golang.org/x/sys"}},
	"deploy/campaign": {[]string{"deploy/local", "dispatch/client", "dispatch/wire", "dispatch/admin", "dedup", "intents", "intents/fault"}, []string{
		"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/jackc/pgx/v5", "github.com/spf13/cobra", "github.com/google/uuid",
		"github.com/emersion/go-smtp", "golang.org/x/sync",
	}},
	"cmd/onebell": {[]string{"*"}, []string{"*"}},

	// Test kits; only tests import them.
	"channels/channeltest": {[]string{"channels", "dedup", "intents"}, []string{"*"}},
	"intents/intenttest":   {[]string{"intents", "dedup", "channels"}, []string{"*"}},
	"dispatch/natstest":    {[]string{"deploy/local", "dispatch/wire"}, []string{"*"}},
	"migrations/pgtest":    {[]string{"migrations", "deploy/local"}, []string{"*"}},
}

var kits = []string{"channels/channeltest", "intents/intenttest", "dispatch/natstest", "migrations/pgtest"}

func TestImportsFollowTheHouse(t *testing.T) {
	for _, p := range packages(t) {
		r, ok := rules[p.room()]
		if !ok {
			t.Errorf("%s is a room that the house does not have", p.room())
			continue
		}
		for _, imp := range p.Imports {
			if !r.allows(imp) {
				t.Errorf("%s may not import %s", p.room(), imp)
			}
		}
	}
}

func (r rule) allows(imp string) bool {
	if room, ours := strings.CutPrefix(imp, module+"/"); ours {
		return slices.Contains(r.rooms, "*") && !slices.Contains(kits, room) || slices.Contains(r.rooms, room)
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.modules, func(m string) bool { return m == "*" || imp == m || strings.HasPrefix(imp, m+"/") })
}

// Packages that only some may import, directly: everything by the right room, in code and in tests of other rooms alike.
func TestSoleImporters(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			room := strings.TrimPrefix(imp, module+"/")
			switch {
			case strings.HasPrefix(imp, "github.com/kelseyhightower/envconfig") && p.room() != "cmd/onebell":
				t.Errorf("%s imports envconfig; only cmd/onebell reads the environment", p.room())
			case path.Dir(room) == "channels" && room != "channels/channeltest" && p.room() != "cmd/onebell":
				t.Errorf("%s imports the concrete channel %s; only cmd/onebell's registry may", p.room(), room)
			case slices.Contains(kits, room):
				t.Errorf("%s imports the test kit %s outside its tests", p.room(), room)
			}
		}
	}
}

func TestProducersLinkNeitherDatabaseNorServer(t *testing.T) {
	deps, err := goList("-deps", "./dispatch/client")
	if err != nil {
		t.Fatal(err)
	}
	if len(deps) < 10 {
		t.Fatalf("only %d packages listed", len(deps))
	}
	for _, p := range deps {
		for _, heavy := range []string{"github.com/jackc/", "firebase.google.com/", "github.com/nats-io/nats-server/", module + "/intents", module + "/channels"} {
			if strings.HasPrefix(p.ImportPath, heavy) {
				t.Errorf("dispatch/client links %s", p.ImportPath)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + path.Base(p.room()) + " "
		}
		if len(p.GoFiles) > 0 && !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its comment begins with %q, want %q and a sentence that says what it is", p.room(), p.Doc, want)
		}
	}
}

func TestTopLevelIsFixed(t *testing.T) {
	allowed := []string{
		"go.mod", "go.sum", "cmd", "dispatch", "channels", "intents", "dedup", "retention", "migrations", "deploy", "README.md",
		"onebell", // what `go build ./cmd/onebell` leaves; ignored by git
	}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s stands at the top level; it belongs into one of the rooms", e.Name())
		}
	}
}
