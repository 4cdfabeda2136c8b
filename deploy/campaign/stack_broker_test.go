package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// The campaign's broker runs with the rights that the shipped configuration gives dispatchers; without acknowledgements only those go.
func TestBrokerRunsTheShippedConfiguration(t *testing.T) {
	config, err := brokerConfig("../..")
	if err != nil {
		t.Fatal(err)
	}
	less, err := withoutAcks(config)
	if err != nil {
		t.Fatal(err)
	}
	for text, acks := range map[string]bool{config: true, less: false} {
		path := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		opts, err := server.ProcessConfigFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if opts.NoAuthUser != "campaign" {
			t.Errorf("who comes without a name is %q", opts.NoAuthUser)
		}
		for _, u := range opts.Users {
			if u.Username != brokerUser {
				continue
			}
			if u.Password != brokerPassword {
				t.Error("the dispatchers' password is another")
			}
			allowed := strings.Join(u.Permissions.Publish.Allow, " ")
			if got := strings.Contains(allowed, "$JS.ACK.ONEBELL_REQUESTS.onebell.>"); got != acks {
				t.Errorf("acknowledging allowed: %v, want %v", got, acks)
			}
			if !strings.Contains(allowed, "$JS.API.CONSUMER.MSG.NEXT.ONEBELL_REQUESTS.onebell") {
				t.Error("more than the right to acknowledge is gone")
			}
		}
	}
}
