package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"github.com/onebell/onebell/dedup"
)

// Config is what the environment says. loadConfig is the only way to make one; the field names are the variables' names.
// No field carries an `envconfig` tag: with one, the library would read the name without its prefix, too.
type Config struct {
	NatsURL       secret   `split_words:"true" default:"nats://127.0.0.1:4222" desc:"broker; several servers with commas between them"`
	NatsURLFile   filePath `split_words:"true" desc:"file that holds ONEBELL_NATS_URL"`
	NatsCredsFile filePath `split_words:"true" desc:"credentials file (JWT and seed) for the broker"`
	NatsCAFile    filePath `split_words:"true" desc:"CA certificates (PEM) that the broker's certificate is checked against"`

	DatabaseURL     secret   `split_words:"true" desc:"PostgreSQL 15 or newer, a primary; required by serve and migrate"`
	DatabaseURLFile filePath `split_words:"true" desc:"file that holds ONEBELL_DATABASE_URL"`

	Secret     secret   `desc:"keyed hash for effect and collapse keys, 32 bytes or more; required by serve; never change it"`
	SecretFile filePath `split_words:"true" desc:"file that holds ONEBELL_SECRET"`

	AdminAddr       hostPort `split_words:"true" default:"127.0.0.1:8080" desc:"listener of the admin API, /metrics, /healthz and /readyz"`
	AdminTokensFile filePath `split_words:"true" desc:"one token a line: name role caller-or-* sha256-of-token; required unless the address is loopback"`
	CallbackAddr    hostPort `split_words:"true" desc:"not in this version: listener for providers' callbacks"`
	Roles           list     `default:"intake,dispatch,admin" desc:"what this process does"`

	Channels     list `desc:"instances as name:type, as in mail:smtp,hooks:webhook; required by serve"`
	AllowSandbox list `split_words:"true" desc:"instances of type sandbox that serve may run"`

	Horizon     span `default:"72h" desc:"a fact older than this is refused as stale"`
	KeepKeys    span `split_words:"true" desc:"how long keys are remembered, from the fact's own time on; derived from the horizon and the channels when unset"`
	KeepIntents span `split_words:"true" default:"2160h" desc:"how long intents are kept after their end, and refusals"`
	KeepContent span `split_words:"true" default:"168h" desc:"how long recipients and contents are kept after the end of their intent"`

	LogLevel     word `split_words:"true" default:"info" desc:"debug, info, warn or error"`
	LogFormat    word `split_words:"true" desc:"text or json; text on a terminal, json elsewhere, when unset"`
	OTLPEndpoint word `split_words:"true" desc:"not in this version: where traces go"`

	PGBin filePath `split_words:"true" desc:"folder of PostgreSQL's programs for dev, demo and bench; found by itself when unset"`

	instances []instance // of Channels, in their order
	warnings  []string   // sentences for the log at start
}

// instance is one configured channel instance with the variables of its type.
type instance struct {
	name, typ string
	prefix    string // of its variables
	env       channelEnv
}

// need says which settings a command cannot do without.
type need uint8

const (
	needDatabase need = 1 << iota
	needSecret
	needChannels
)

// serveNeeds is what production needs.
const serveNeeds = needDatabase | needSecret | needChannels

// loadConfig reads and checks the environment. The error names variables and reasons, never values.
func loadConfig(n need) (Config, error) { return loadWith(n, nil, nil) }

// loadWith is loadConfig for the commands that bring their own surroundings: channels takes the place of ONEBELL_CHANNELS, and
// fill sets what the environment does not decide. Everything else, a channel's limits above all, stays the environment's.
func loadWith(n need, channels list, fill func(*Config)) (Config, error) {
	var c Config
	if err := process("ONEBELL", &c); err != nil {
		return Config{}, err
	}
	if channels != nil {
		c.Channels, c.AllowSandbox = channels, nil
	}
	if err := c.loadChannels(); err != nil {
		return Config{}, err
	}
	if fill != nil {
		fill(&c)
	}
	known, err := c.variables()
	if err != nil {
		return Config{}, err
	}
	p := problems(unknownNames(names(known)))
	c.readFiles(&p)
	c.check(n, &p)
	return c, p.err()
}

// loadEarly reads what the local commands must know before they bring up what the rest of the configuration points at: the log's
// settings, and the database that may take the place of their own.
func loadEarly() (Config, error) {
	var c Config
	if err := process("ONEBELL", &c); err != nil {
		return Config{}, err
	}
	known, err := c.variables()
	if err != nil {
		return Config{}, err
	}
	// Which variables the channels have is known later, with the channels.
	p := problems(slices.DeleteFunc(unknownNames(names(known)), func(s string) bool { return strings.HasPrefix(s, channelPrefix) }))
	c.readFiles(&p)
	c.checkLog(&p)
	c.checkDatabase(0, &p)
	return c, p.err()
}

// process reads one struct of variables and takes the value out of the library's error.
func process(prefix string, spec any) error {
	err := envconfig.Process(prefix, spec)
	var parse *envconfig.ParseError
	if errors.As(err, &parse) {
		return configError(parse.KeyName + " " + parse.Err.Error())
	}
	if err != nil {
		return fmt.Errorf("reading the variables of %s: %w", prefix, err)
	}
	return nil
}

// loadChannels reads the variables of every instance in ONEBELL_CHANNELS.
func (c *Config) loadChannels() error {
	prefixes := map[string]string{}
	for _, item := range c.Channels {
		in, err := newInstance(item)
		if err != nil {
			return err
		}
		if other, taken := prefixes[in.prefix]; taken {
			return configError("ONEBELL_CHANNELS names instances " + other + " and " + in.name + ", whose variables would have one name; rename one of them")
		}
		prefixes[in.prefix] = in.name
		if err := process(in.prefix, in.env); err != nil {
			return err
		}
		c.instances = append(c.instances, in)
	}
	return nil
}

// channelPrefix begins the names of all channels' variables.
const channelPrefix = "ONEBELL_CHANNEL_"

func newInstance(item string) (instance, error) {
	name, typ, ok := strings.Cut(item, ":")
	name, typ = strings.TrimSpace(name), strings.TrimSpace(typ)
	if _, err := dedup.ParseChannel(name); !ok || err != nil {
		return instance{}, configError("ONEBELL_CHANNELS has an item that is not name:type with a name of 1 to 32 characters from a-z 0-9 _ -; write it as in mail:smtp,hooks:webhook")
	}
	make, ok := channelTypes()[typ]
	if !ok {
		return instance{}, configError("ONEBELL_CHANNELS gives instance " + name + " a type that this version does not have; types are " + strings.Join(typeNames(), ", "))
	}
	prefix := channelPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	return instance{name: name, typ: typ, prefix: prefix, env: make()}, nil
}

// variables lists every variable that this configuration reads, with its effective value.
func (c *Config) variables() ([]variable, error) {
	vars, err := describe("ONEBELL", c)
	if err != nil {
		return nil, err
	}
	for _, in := range c.instances {
		more, err := describe(in.prefix, in.env)
		if err != nil {
			return nil, err
		}
		vars = append(vars, more...)
	}
	return vars, nil
}

func names(vars []variable) []string {
	out := make([]string, 0, len(vars))
	for _, v := range vars {
		out = append(out, v.Name)
	}
	return out
}

// readFiles resolves the secrets that stand in files.
func (c *Config) readFiles(p *problems) {
	if _, set := os.LookupEnv("ONEBELL_NATS_URL"); !set {
		c.NatsURL.source = "" // the default gives way to a file
	}
	files := []secretFile{
		{"ONEBELL_NATS_URL", &c.NatsURL, c.NatsURLFile},
		{"ONEBELL_DATABASE_URL", &c.DatabaseURL, c.DatabaseURLFile},
		{"ONEBELL_SECRET", &c.Secret, c.SecretFile},
	}
	for _, in := range c.instances {
		files = append(files, in.env.secretFiles(in.prefix)...)
	}
	for _, f := range files {
		warning, err := f.resolve()
		if err != nil {
			p.add(f.name+"_FILE", err.Error())
		}
		if warning != "" {
			c.warnings = append(c.warnings, f.name+"_FILE "+warning)
		}
	}
	if c.NatsURL.source == "" {
		c.NatsURL.source = "default"
	}
}

func (c *Config) has(role string) bool { return slices.Contains(c.Roles, role) }

// problems collects what is wrong with a configuration, one sentence each.
type problems []string

func (p *problems) add(name, reason string) { *p = append(*p, name+" "+reason) }

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return configError(strings.Join(p, "; "))
}

// configError is a configuration that cannot be used; its text holds names and reasons, never values.
type configError string

func (e configError) Error() string { return string(e) }
