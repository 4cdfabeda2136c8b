package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canary stands in values that no error and no log may show.
const canary = "hunter2-secret"

// setEnv makes the ONEBELL_ variables of the process exactly env, until the test ends.
func setEnv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "ONEBELL_") {
			t.Setenv(name, "") // so that the old value comes back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

// serveEnv is an environment that serve accepts, changed by the given pairs; "-" removes.
func serveEnv(pairs ...string) map[string]string {
	env := map[string]string{
		"ONEBELL_DATABASE_URL":                 "postgres://onebell:" + canary + "@127.0.0.1:5432/onebell",
		"ONEBELL_SECRET":                       strings.Repeat("0123456789abcdef", 2),
		"ONEBELL_CHANNELS":                     "mail:smtp,hooks:webhook",
		"ONEBELL_CHANNEL_MAIL_ADDR":            "127.0.0.1:2525",
		"ONEBELL_CHANNEL_MAIL_FROM":            "receipts@example.org",
		"ONEBELL_CHANNEL_MAIL_TLS":             "none",
		"ONEBELL_CHANNEL_HOOKS_DEDUP":          "idempotency-key",
		"ONEBELL_CHANNEL_HOOKS_KEY_WINDOW":     "24h",
		"ONEBELL_CHANNEL_HOOKS_SIGNING_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "-" {
			delete(env, pairs[i])
		} else {
			env[pairs[i]] = pairs[i+1]
		}
	}
	return env
}

// loadAndBuild does what serve does before it connects to anything.
func loadAndBuild() error {
	c, err := loadConfig(serveNeeds)
	if err != nil {
		return err
	}
	_, err = newApp(c, slog.New(slog.DiscardHandler))
	return err
}

func TestConfigErrorsNameVariableAndReason(t *testing.T) {
	cases := []struct {
		name string
		env  []string
		want string // in the error; "" means that it loads
	}{
		{"complete", nil, ""},
		{"B7 a stray name without the prefix is not read", []string{"HORIZON", "bogus", "TIMEOUT", "60", "SECRET", "x"}, ""},
		{"B7 octal", []string{"ONEBELL_CHANNEL_MAIL_MAX_ATTEMPTS", "010"}, "ONEBELL_CHANNEL_MAIL_MAX_ATTEMPTS has a leading zero"},
		{"B7 octal rate", []string{"ONEBELL_CHANNEL_MAIL_RATE", "010"}, "ONEBELL_CHANNEL_MAIL_RATE is not a plain decimal"},
		{"B7 hexadecimal", []string{"ONEBELL_CHANNEL_MAIL_MAX_ATTEMPTS", "0x10"}, "MAX_ATTEMPTS is not a whole number"},
		{"B7 set but empty, required", []string{"ONEBELL_DATABASE_URL", ""}, "ONEBELL_DATABASE_URL is set but empty"},
		{"B7 set but empty, with default", []string{"ONEBELL_HORIZON", ""}, "ONEBELL_HORIZON is set but empty"},
		{"B7 set but blank", []string{"ONEBELL_LOG_LEVEL", "  "}, "ONEBELL_LOG_LEVEL is set but empty"},
		{"B7 empty list item", []string{"ONEBELL_ROLES", "intake,,admin"}, "ONEBELL_ROLES has an empty item"},
		{"list item twice", []string{"ONEBELL_ROLES", "intake, intake"}, "ONEBELL_ROLES names an item twice"},
		{"B7 octal duration", []string{"ONEBELL_HORIZON", "072h"}, "ONEBELL_HORIZON has a leading zero"},
		{"B7 octal minutes", []string{"ONEBELL_HORIZON", "1h05m"}, "ONEBELL_HORIZON has a leading zero"},
		{"duration without unit", []string{"ONEBELL_HORIZON", "72"}, "ONEBELL_HORIZON is not a duration"},
		{"negative duration", []string{"ONEBELL_HORIZON", "-1h"}, "ONEBELL_HORIZON must be more than 0"},
		{"horizon out of range", []string{"ONEBELL_HORIZON", "1s"}, "ONEBELL_HORIZON is out of range"},
		{"zero concurrency", []string{"ONEBELL_CHANNEL_MAIL_CONCURRENCY", "0"}, "CONCURRENCY is out of range"},
		{"zero rate", []string{"ONEBELL_CHANNEL_MAIL_RATE", "0"}, "RATE must be more than 0"},
		{"huge concurrency", []string{"ONEBELL_CHANNEL_MAIL_CONCURRENCY", "9999"}, "CONCURRENCY is out of range"},
		{"timeout out of range", []string{"ONEBELL_CHANNEL_MAIL_TIMEOUT", "1h"}, "ONEBELL_CHANNEL_MAIL_TIMEOUT is out of range"},
		{"unknown role", []string{"ONEBELL_ROLES", "intake,sender"}, "ONEBELL_ROLES must be intake, dispatch or admin"},
		{"unknown level", []string{"ONEBELL_LOG_LEVEL", "loud"}, "ONEBELL_LOG_LEVEL must be debug, info, warn or error"},
		{"unknown format", []string{"ONEBELL_LOG_FORMAT", "xml"}, "ONEBELL_LOG_FORMAT must be text or json"},
		{"short secret", []string{"ONEBELL_SECRET", canary}, "ONEBELL_SECRET is too short"},
		{"secret with a line end", []string{"ONEBELL_SECRET", strings.Repeat(canary, 4) + "\n"}, "ONEBELL_SECRET has blanks or line ends"},
		{"no secret", []string{"ONEBELL_SECRET", "-"}, "ONEBELL_SECRET is required"},
		{"no database", []string{"ONEBELL_DATABASE_URL", "-"}, "ONEBELL_DATABASE_URL is required"},
		{"no channels", []string{"ONEBELL_CHANNELS", "-", "ONEBELL_CHANNEL_MAIL_ADDR", "-"}, "ONEBELL_CHANNELS is required"},
		{"X5 database with a wrong port", []string{"ONEBELL_DATABASE_URL", "postgres://u:" + canary + "@h:port/db"}, "ONEBELL_DATABASE_URL is not a PostgreSQL address"},
		{"X5 secret where an address belongs", []string{"ONEBELL_CHANNEL_MAIL_ADDR", canary}, "ONEBELL_CHANNEL_MAIL_ADDR is not host:port"},
		{"X5 secret where a number belongs", []string{"ONEBELL_CHANNEL_MAIL_CONCURRENCY", canary}, "CONCURRENCY is not a whole number"},
		{"X5 secret where a file belongs", []string{"ONEBELL_SECRET_FILE", canary}, "ONEBELL_SECRET_FILE names a file that does not exist"},
		{"X5 secret where a channel belongs", []string{"ONEBELL_CHANNELS", canary}, "ONEBELL_CHANNELS has an item that is not name:type"},
		{"X5 secret where a type belongs", []string{"ONEBELL_CHANNELS", "mail:" + canary}, "ONEBELL_CHANNELS gives instance mail a type"},
		{"port out of range", []string{"ONEBELL_ADMIN_ADDR", "127.0.0.1:70000"}, "ONEBELL_ADMIN_ADDR has no port number"},
		{"broker address without scheme", []string{"ONEBELL_NATS_URL", canary + ":4222"}, "ONEBELL_NATS_URL is not a list of broker addresses"},
		{"admin off loopback without tokens", []string{"ONEBELL_ADMIN_ADDR", "0.0.0.0:8080"}, "ONEBELL_ADMIN_TOKENS_FILE is required"},
		{"admin off loopback, role not taken", []string{"ONEBELL_ADMIN_ADDR", "0.0.0.0:8080", "ONEBELL_ROLES", "intake,dispatch"}, ""},
		{"not in this version", []string{"ONEBELL_OTLP_ENDPOINT", "http://127.0.0.1:4318"}, "ONEBELL_OTLP_ENDPOINT is not in this version"},
		{"callback listener not in this version", []string{"ONEBELL_CALLBACK_ADDR", "127.0.0.1:8081"}, "ONEBELL_CALLBACK_ADDR is not in this version"},
		{"unknown type", []string{"ONEBELL_CHANNELS", "mail:smtp,sms:pigeon"}, "gives instance sms a type that this version does not have"},
		{"bad instance name", []string{"ONEBELL_CHANNELS", "Mail:smtp"}, "ONEBELL_CHANNELS has an item that is not name:type"},
		{"two instances, one variable", []string{"ONEBELL_CHANNELS", "a-b:webhook,a_b:webhook"}, "instances a-b and a_b"},
		{"sandbox without leave", []string{"ONEBELL_CHANNELS", "mail:smtp,hooks:webhook,box:sandbox"}, "makes instance box a sandbox"},
		{"sandbox with leave", []string{"ONEBELL_CHANNELS", "mail:smtp,hooks:webhook,box:sandbox", "ONEBELL_ALLOW_SANDBOX", "box"}, ""},
		{"leave for something else", []string{"ONEBELL_ALLOW_SANDBOX", "mail"}, "ONEBELL_ALLOW_SANDBOX names something that is not a sandbox"},
		{"mail without address", []string{"ONEBELL_CHANNEL_MAIL_ADDR", "-"}, "ONEBELL_CHANNEL_MAIL_ADDR is required"},
		{"mail without sender", []string{"ONEBELL_CHANNEL_MAIL_FROM", "-"}, "ONEBELL_CHANNEL_MAIL_FROM is required"},
		{"user without password", []string{"ONEBELL_CHANNEL_MAIL_USERNAME", "u"}, "ONEBELL_CHANNEL_MAIL: USERNAME and PASSWORD go together"},
		{"password in the clear", []string{"ONEBELL_CHANNEL_MAIL_USERNAME", "u", "ONEBELL_CHANNEL_MAIL_PASSWORD", canary, "ONEBELL_CHANNEL_MAIL_ADDR", "mail.example.org:25"}, "ONEBELL_CHANNEL_MAIL_TLS is none"},
		{"bad TLS word", []string{"ONEBELL_CHANNEL_MAIL_TLS", "yes"}, "ONEBELL_CHANNEL_MAIL_TLS must be mandatory, opportunistic or none"},
		{"header without window", []string{"ONEBELL_CHANNEL_MAIL_IDEMPOTENCY_HEADER", "X-Key"}, "ONEBELL_CHANNEL_MAIL: IDEMPOTENCY_HEADER needs KEY_WINDOW"},
		{"key without window", []string{"ONEBELL_CHANNEL_HOOKS_KEY_WINDOW", "-"}, "ONEBELL_CHANNEL_HOOKS_KEY_WINDOW and _DEDUP go together"},
		{"D3 keys forgotten before the last retry", []string{"ONEBELL_KEEP_KEYS", "96h"}, "ONEBELL_KEEP_KEYS is too short"},
		{"D3 keys kept long enough", []string{"ONEBELL_KEEP_KEYS", "240h"}, ""},
		{"D3 keys outlive a longer retry", []string{"ONEBELL_KEEP_KEYS", "240h", "ONEBELL_CHANNEL_MAIL_MAX_AGE", "150h"}, "ONEBELL_KEEP_KEYS is too short"},
		{"D3 intents forgotten before their keys", []string{"ONEBELL_KEEP_KEYS", "240h", "ONEBELL_KEEP_INTENTS", "239h"}, "ONEBELL_KEEP_INTENTS is shorter"},
		{"D3 intents forgotten before derived keys", []string{"ONEBELL_KEEP_INTENTS", "120h"}, "ONEBELL_KEEP_INTENTS is shorter"},
		{"D3 a longer horizon needs longer keys", []string{"ONEBELL_KEEP_KEYS", "240h", "ONEBELL_HORIZON", "200h"}, "ONEBELL_KEEP_KEYS is too short"},
		{"D3 a longer horizon outlives intents", []string{"ONEBELL_HORIZON", "2160h"}, "ONEBELL_KEEP_INTENTS is shorter"},
		{"D3 windows that no number holds", []string{"ONEBELL_CHANNEL_MAIL_MAX_AGE", "2562000h"}, "ONEBELL_KEEP_INTENTS is shorter"},
		{"contents that outlive their intents", []string{"ONEBELL_KEEP_CONTENT", "2161h"}, "ONEBELL_KEEP_CONTENT is longer"},
		{"bad dedup word", []string{"ONEBELL_CHANNEL_HOOKS_DEDUP", "always"}, "ONEBELL_CHANNEL_HOOKS_DEDUP must be"},
		{"network without length", []string{"ONEBELL_CHANNEL_HOOKS_ALLOW_PRIVATE", "10.0.0.0"}, "ONEBELL_CHANNEL_HOOKS_ALLOW_PRIVATE has an item that is not a network"},
		{"look-up without scheme", []string{"ONEBELL_CHANNEL_HOOKS_LOOKUP_URL", "example.org/x"}, "ONEBELL_CHANNEL_HOOKS: LOOKUP_URL must hold {key} once"},
		{"misspelled", []string{"ONEBELL_CHANEL_MAIL_ADDR", canary}, "ONEBELL_CHANEL_MAIL_ADDR is not a variable of onebell; did you mean ONEBELL_CHANNEL_MAIL_ADDR?"},
		{"misspelled for a channel", []string{"ONEBELL_CHANNEL_MAIL_CONCURENCY", "4"}, "did you mean ONEBELL_CHANNEL_MAIL_CONCURRENCY?"},
		{"a channel type's variable on another type", []string{"ONEBELL_CHANNEL_HOOKS_FROM", canary}, "ONEBELL_CHANNEL_HOOKS_FROM is not a variable of an instance"},
		{"Kubernetes service", []string{
			"ONEBELL_SERVICE_HOST", "10.0.0.1", "ONEBELL_SERVICE_PORT", "8080", "ONEBELL_SERVICE_PORT_ADMIN", "8080", "ONEBELL_PORT", "tcp://10.0.0.1:8080",
			"ONEBELL_PORT_8080_TCP", "tcp://10.0.0.1:8080", "ONEBELL_PORT_8080_TCP_PROTO", "tcp", "ONEBELL_PORT_8080_TCP_PORT", "8080", "ONEBELL_PORT_8080_TCP_ADDR", "10.0.0.1",
			"ONEBELL_ADMIN_SERVICE_HOST", "10.0.0.2", "ONEBELL_ADMIN_PORT", "tcp://10.0.0.2:8080",
		}, ""},
		{"a port that Kubernetes would not set", []string{"ONEBELL_CHANNEL_MAIL_PORT", "587"}, "ONEBELL_CHANNEL_MAIL_PORT is not a variable"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			setEnv(t, serveEnv(tc.env...))
			err := loadAndBuild()
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
			if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the error shows a value or more than one line: %v", err)
			}
		})
	}
}

// Whatever variable a secret is put into by mistake: the error and the listing do not show it.
func TestX5NoVariableShowsItsValue(t *testing.T) {
	setEnv(t, serveEnv())
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	vars, err := c.variables()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vars {
		for _, value := range []string{canary, "postgres://u:" + canary + "@h:x/d", `{"` + canary, canary + "\x01"} {
			setEnv(t, serveEnv(v.Name, value))
			if err := loadAndBuild(); err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s: the error shows the value: %v", v.Name, err)
			}
			c, err := loadConfig(serveNeeds)
			if err == nil && strings.Contains(fmt.Sprintf("%v %+v %#v", c.Secret, c.DatabaseURL, c.NatsURL), canary) {
				t.Errorf("%s: formatting shows the value", v.Name)
			}
		}
	}
}

func TestB7ListsAreTrimmedAndDefaultsStand(t *testing.T) {
	setEnv(t, serveEnv("ONEBELL_ROLES", " intake ,  dispatch ", "ONEBELL_CHANNELS", "mail:smtp , hooks:webhook", "ONEBELL_CHANNEL_HOOKS_ALLOW_PRIVATE", "10.0.0.0/8, fd00::/8"))
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Roles.String(); got != "intake,dispatch" {
		t.Errorf("roles %q", got)
	}
	if len(c.instances) != 2 || c.instances[0].name != "mail" || c.instances[1].name != "hooks" {
		t.Errorf("instances %+v", c.instances)
	}
	if got := c.instances[1].env.(*webhookEnv).AllowPrivate.String(); got != "10.0.0.0/8,fd00::/8" {
		t.Errorf("networks %q", got)
	}
	if time.Duration(c.Horizon) != 72*time.Hour || c.AdminAddr != "127.0.0.1:8080" || c.NatsURL.value != "nats://127.0.0.1:4222" {
		t.Errorf("defaults: %v %v", c.Horizon, c.AdminAddr)
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // not narrowed by the umask
			t.Fatal(err)
		}
		return path
	}
	long := strings.Repeat(canary, 4)
	cases := []struct {
		name, path, keep string
		want, warning    string
	}{
		{"private", write("a", long+"\n", 0o400), "-", "", ""},
		{"readable by all", write("b", long, 0o444), "-", "", "ONEBELL_SECRET_FILE names a file that every user may read"},
		{"writable by all", write("c", long, 0o666), "-", "ONEBELL_SECRET_FILE names a file that every user may write", ""},
		{"both", write("d", long, 0o400), long, "ONEBELL_SECRET_FILE is set beside ONEBELL_SECRET", ""},
		{"empty", write("e", "\n", 0o400), "-", "ONEBELL_SECRET_FILE names an empty file", ""},
		{"blanks", write("f", long+" \n", 0o400), "-", "content has blanks or line ends", ""},
		{"too large", write("g", strings.Repeat("x", maxSecretFile+1), 0o400), "-", "too large", ""},
		{"missing", filepath.Join(dir, "none"), "-", "ONEBELL_SECRET_FILE names a file that does not exist", ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			setEnv(t, serveEnv("ONEBELL_SECRET", tc.keep, "ONEBELL_SECRET_FILE", tc.path))
			c, err := loadConfig(serveNeeds)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), canary) {
					t.Fatalf("got %v, want an error with %q and no value", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Secret.value != long {
				t.Error("the secret is not the file's content without its line end")
			}
			if got := strings.Join(c.warnings, "\n"); !strings.Contains(got, tc.warning) || (tc.warning == "") != (got == "") {
				t.Errorf("warnings %q, want %q", got, tc.warning)
			}
		})
	}
}

func TestEffectiveConfigurationIsShownWithoutSecrets(t *testing.T) {
	setEnv(t, serveEnv("ONEBELL_NATS_URL", "nats://dispatcher:"+canary+"@broker:4222", "ONEBELL_CHANNEL_MAIL_TLS", "mandatory",
		"ONEBELL_CHANNEL_MAIL_USERNAME", "login-"+canary, "ONEBELL_CHANNEL_MAIL_PASSWORD", canary, "ONEBELL_CHANNEL_MAIL_RATE", "2.5", "ONEBELL_KEEP_CONTENT", "24h"))
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.show(t.Context(), slog.New(slog.NewJSONHandler(&out, nil)))
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), "0123456789abcdef") || strings.Contains(out.String(), "whsec_") {
		t.Fatalf("a secret is shown:\n%s", out.String())
	}
	first, rest, _ := strings.Cut(out.String(), "\n")
	var got map[string]any
	if err := json.Unmarshal([]byte(first), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"NATS_URL": "nats://broker:4222", "DATABASE_URL": "postgres://127.0.0.1:5432 (set by environment)", "SECRET": "(set by environment)",
		"CHANNEL_MAIL_PASSWORD": "(set by environment)", "CHANNEL_MAIL_USERNAME": "(set)", "CHANNEL_MAIL_RATE": "2.5", "HORIZON": "72h0m0s", "CHANNEL_MAIL_CONCURRENCY": "16",
	} {
		if got[name] != want {
			t.Errorf("%s is shown as %v, want %q", name, got[name], want)
		}
	}
	if rest != "" {
		t.Errorf("a warning without a reason: %s", rest)
	}
}
