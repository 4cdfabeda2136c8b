package main

import (
	"log/slog"
	"testing"
)

// A recipient is found under each form that a channel stores it in, so each type's sample content must be valid.
func TestEveryTypesSampleIsValid(t *testing.T) {
	recipients := map[string]string{"smtp": "Ada@Example.ORG", "webhook": "https://Example.org/hook", "sandbox": "anybody"}
	setEnv(t, serveEnv("ONEBELL_CHANNELS", "mail:smtp,hooks:webhook,box:sandbox", "ONEBELL_ALLOW_SANDBOX", "box"))
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newApp(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.instances) != len(channelTypes()) {
		t.Fatalf("%d instances for %d types", len(c.instances), len(channelTypes()))
	}
	for _, in := range c.instances {
		e, _ := app.registry.Lookup(in.name)
		if _, err := e.Channel.Validate(recipients[in.typ], in.env.sample()); err != nil {
			t.Errorf("%s: %v", in.typ, err)
		}
	}
	if got := len(app.recipientHashes("Ada@Example.ORG")); got != 2 {
		t.Errorf("%d hashes, want one of the form as given and one of the mail channel's", got)
	}
}
