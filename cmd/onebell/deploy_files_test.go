package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

type composeFile struct {
	Name     string
	Services map[string]composeService
	Volumes  map[string]any
	Secrets  map[string]struct{ File string }
}

type composeService struct {
	Image, Restart string
	Build          struct{ Context, Dockerfile string }
	Command        []string
	ReadOnly       bool     `yaml:"read_only"`
	CapDrop        []string `yaml:"cap_drop"`
	SecurityOpt    []string `yaml:"security_opt"`
	StopGrace      string   `yaml:"stop_grace_period"`
	Environment    map[string]string
	Secrets        []string
	Volumes        []string
	Ports          []string
	DependsOn      map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck    struct {
		Test     []string
		Interval string
		Retries  int
	}
}

func compose(t *testing.T) composeFile {
	t.Helper()
	f, err := os.Open("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw := map[string]any{}
	if err := yaml.NewDecoder(f).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "x-onebell") // an extension that the services merge
	plain, err := yaml.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	dec := yaml.NewDecoder(strings.NewReader(string(plain)))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		t.Fatalf("a key that compose files of this project do not have: %v", err)
	}
	return c
}

func TestComposeIsAWholeInstallation(t *testing.T) {
	c := compose(t)
	for _, name := range []string{"nats", "postgres", "mail", "migrate", "onebell"} {
		if _, ok := c.Services[name]; !ok {
			t.Fatalf("service %s is missing", name)
		}
	}
	for name, s := range c.Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to the network", name, p)
			}
		}
		if s.Build.Dockerfile == "" && !regexp.MustCompile(`^[a-z/]+:v?[0-9]+(\.[0-9]+)*(-alpine)?$`).MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		for dep := range s.DependsOn {
			if _, ok := c.Services[dep]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, dep)
			}
		}
	}
	if m, o := c.Services["migrate"], c.Services["onebell"]; !slices.Equal(m.Command, []string{"migrate"}) || !slices.Equal(o.Command, []string{"serve"}) ||
		o.DependsOn["migrate"].Condition != "service_completed_successfully" {
		t.Error("onebell must start after a finished migration")
	}
	if o := c.Services["onebell"]; !o.ReadOnly || !slices.Equal(o.CapDrop, []string{"ALL"}) {
		t.Error("onebell runs with more rights than it needs")
	}
	if n := c.Services["nats"]; !slices.Contains(n.Volumes, "./nats-server.conf:/etc/nats/nats-server.conf:ro") || !slices.Contains(n.Volumes, "nats:/data/jetstream") {
		t.Error("the broker does not run on the shipped configuration")
	}
	// Every password that the broker's configuration asks for is passed on.
	conf, err := os.ReadFile("../../deploy/nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`password: \$([A-Z_]+)`).FindAllStringSubmatch(string(conf), -1) {
		if c.Services["nats"].Environment[m[1]] == "" {
			t.Errorf("the broker is not given %s", m[1])
		}
	}
}

// composeSecrets is what the notes at the head of the compose file write into each secret's file.
var composeSecrets = map[string]string{
	"nats-url": "nats://dispatcher:x@nats:4222", "database-url": "postgres://onebell:x@postgres:5432/onebell?sslmode=disable",
	"secret": strings.Repeat("x", 64) + "\n", "admin-tokens": "me operator * " + strings.Repeat("0", 64) + "\n",
}

func TestComposeEnvironmentIsAccepted(t *testing.T) {
	c, env := compose(t), map[string]string{}
	o, dir := c.Services["onebell"], t.TempDir()
	for name, value := range o.Environment {
		if file, ok := strings.CutPrefix(value, "/run/secrets/"); ok {
			if c.Secrets[file].File == "" || !slices.Contains(o.Secrets, file) {
				t.Errorf("%s names secret %s, which the container is not given", name, file)
			}
			value = filepath.Join(dir, file)
			if err := os.WriteFile(value, []byte(composeSecrets[file]), 0o400); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(value, "${") {
			t.Errorf("%s takes a secret from the environment, which `docker inspect` shows", name)
		}
		env[name] = value
	}
	setEnv(t, env)
	if _, err := loadConfig(serveNeeds); err != nil {
		t.Error(err)
	}
}

// unit reads deploy/onebell.service, by section and directive. A commented directive stands under "#".
func unit(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("../../deploy/onebell.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string][]string{}
	section := ""
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "# ") || line == "#":
		case strings.HasPrefix(line, "#"):
			key, value, _ := strings.Cut(line, "=")
			got[key] = append(got[key], value)
		case strings.HasPrefix(line, "["):
			section = line
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Errorf("not a directive: %q", line)
			}
			got[section+key] = append(got[section+key], value)
		}
	}
	return got
}

func TestUnitIsHardenedAndDrains(t *testing.T) {
	got := unit(t)
	for key, want := range map[string]string{
		"[Service]ExecStart": "/usr/local/bin/onebell serve", "[Service]EnvironmentFile": "/etc/onebell/onebell.env", "[Service]Type": "exec",
		"[Service]KillSignal": "SIGTERM", "[Service]TimeoutStopSec": "240s", "[Service]Restart": "on-failure", "[Service]RestartSec": "5s", "[Unit]StartLimitIntervalSec": "1h", "[Unit]StartLimitBurst": "120",
		"[Service]RestartPreventExitStatus": "2",
		"[Service]DynamicUser":              "yes", "[Service]NoNewPrivileges": "yes", "[Service]ProtectSystem": "strict", "[Service]ProtectHome": "yes", "[Service]PrivateTmp": "yes",
		"[Service]CapabilityBoundingSet": "", "[Service]MemoryDenyWriteExecute": "yes", "[Service]UMask": "0077", "[Service]LoadCredential": "secret:/etc/onebell/secret",
		"[Service]SystemCallErrorNumber": "EPERM", "[Install]WantedBy": "multi-user.target",
	} {
		if !slices.Contains(got[key], want) {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	// What the unit sets is the code's: a misspelled variable would stop every start.
	loaded := append(got["[Service]LoadCredential"], got["#LoadCredential"]...)
	assignments := append(got["[Service]Environment"], got["#Environment"]...)
	if len(loaded) < 5 {
		t.Errorf("only %d credentials are shown", len(loaded))
	}
	for _, assignment := range assignments {
		name, value, _ := strings.Cut(assignment, "=")
		if _, ok := reference(t)[name]; !ok {
			t.Errorf("the unit sets %s, which the code does not read", name)
		}
		if id, ok := strings.CutPrefix(value, "%d/"); ok && !slices.ContainsFunc(loaded, func(s string) bool { return strings.HasPrefix(s, id+":") }) {
			t.Errorf("the unit sets %s to a credential that it does not load", name)
		}
	}
}

func TestContainerIsStaticAndWithoutRights(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(string(mod))
	if toolchain == nil {
		t.Fatal("go.mod names no toolchain")
	}
	for _, want := range []string{
		"FROM golang:" + toolchain[1] + " AS build", "FROM gcr.io/distroless/static-debian12:nonroot", "USER 65532:65532", `ENTRYPOINT ["/onebell"]`, `CMD ["serve"]`, "STOPSIGNAL SIGTERM",
		`RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /onebell ./cmd/onebell`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the container file lacks the line %q", want)
		}
	}
}

var (
	requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`) // direct ones: the others end in "// indirect"
	tableRow    = regexp.MustCompile(`(?m)^\| (\S+\.\S+) \| (v\S+) \| `)
)

func TestEveryDependencyHasItsReason(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := os.ReadFile("../../deploy/DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, m := range tableRow.FindAllStringSubmatch(string(decisions), -1) {
		reasons[m[1]] = m[2]
	}
	direct := requirement.FindAllStringSubmatch(string(mod), -1)
	if len(direct) < 5 {
		t.Fatalf("only %d requirements found", len(direct))
	}
	for _, m := range direct {
		if reasons[m[1]] != m[2] {
			t.Errorf("DECISIONS.md gives %s version %q and a reason; go.mod has %s", m[1], reasons[m[1]], m[2])
		}
		delete(reasons, m[1])
	}
	for path := range reasons {
		if !strings.Contains(string(mod), path+" ") {
			t.Errorf("DECISIONS.md has a reason for %s, which go.mod does not require", path)
		}
	}
}
