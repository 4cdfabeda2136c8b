package main

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
)

// Told to stop while the database keeps it waiting, a dispatcher ends well: a supervisor that stops it must not count a failure.
func TestToldToStopWhileStarting(t *testing.T) {
	database, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	setEnv(t, serveEnv("ONEBELL_DATABASE_URL", "postgres://onebell:"+canary+"@"+database.Addr().String()+"/onebell?sslmode=disable"))
	cfg, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		if c, err := database.Accept(); err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		stop()
	}()
	log := quietFile(t)
	if err := serve(ctx, cfg, log); err != nil {
		t.Errorf("it ended with: %v", err)
	}
	said, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(said), "told to stop before it served") || strings.Contains(string(said), canary) {
		t.Errorf("it said: %s", said)
	}
}
