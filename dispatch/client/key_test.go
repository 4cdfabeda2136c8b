package client

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/wire"
)

func TestKey(t *testing.T) {
	for want, parts := range map[string][]string{
		"receipt-mail:8841":       {"receipt-mail", "8841"},
		"order:8841:paid:2026-11": {"order", "8841", "paid", "2026-11"},
	} {
		if got, err := Key(parts[0], parts[1], parts[2:]...); string(got) != want || err != nil {
			t.Errorf("Key(%v) = %q, %v", parts, got, err)
		}
	}
	for _, parts := range [][]string{{"order", "8841:paid"}, {"or:der", "1"}, {"order", ""}, {"", "1"}, {"order", "1", ""}, {"mail", "ada@example.org"}} {
		_, err := Key(parts[0], parts[1], parts[2:]...)
		var r *wire.Refusal
		if !errors.As(err, &r) || r.Code != dedup.CodeKeyInvalid {
			t.Errorf("Key(%v): %v", parts, err)
		}
	}
}

// A producer links the SDK into its own program: it must not bring a database driver, a provider's SDK or a broker along.
func TestSDKLinksNeitherDatabaseNorProviderNorServer(t *testing.T) {
	out, err := exec.CommandContext(within(t), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("only %d dependencies: is this the right list?", len(deps))
	}
	for _, dep := range deps {
		for _, forbidden := range []string{"github.com/jackc/", "firebase.google.com/", "github.com/nats-io/nats-server/", "github.com/prometheus/", "google.golang.org/"} {
			if strings.HasPrefix(dep, forbidden) {
				t.Errorf("the SDK links %s", dep)
			}
		}
		if strings.HasPrefix(dep, "github.com/onebell/onebell/") {
			switch strings.TrimPrefix(dep, "github.com/onebell/onebell/") {
			case "dedup", "dispatch/wire", "dispatch/client":
			default:
				t.Errorf("the SDK links %s", dep)
			}
		}
	}
}
