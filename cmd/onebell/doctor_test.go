package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/migrations/pgtest"
)

// diagnose runs doctor and returns its findings.
func diagnose(t *testing.T) (status int, list []finding) {
	t.Helper()
	status, out, stderr := onebell(t, "doctor", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s %s", err, out, stderr)
	}
	if strings.Contains(out+stderr, canary) {
		t.Errorf("a value is shown: %s %s", out, stderr)
	}
	return status, list
}

func hasFinding(list []finding, check, result, text string) bool {
	return slices.ContainsFunc(list, func(f finding) bool {
		return f.Check == check && f.Result == result && strings.Contains(f.Message, text)
	})
}

func TestDoctorFindsAHealthyServiceAndAChangedStream(t *testing.T) {
	h := hostForTest(t, oneHostOptions{})
	setEnv(t, serveEnv("ONEBELL_DATABASE_URL", h.stack.databaseURL, "ONEBELL_NATS_URL", h.stack.broker.URL(), "ONEBELL_CHANNEL_MAIL_ADDR", h.inbox.SMTPAddr()))
	status, list := diagnose(t)
	if status != exitOK {
		t.Fatalf("a healthy service: status %d: %+v", status, list)
	}
	for _, check := range []string{"configuration", "schema", "database", "clock", "broker", "permissions", "streams", "channel mail", "channel hooks"} {
		if !hasFinding(list, check, "ok", "") {
			t.Errorf("%s is not ok: %+v", check, list)
		}
	}

	nc, err := nats.Connect(h.stack.broker.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), wire.RequestStream)
	if err != nil {
		t.Fatal(err)
	}
	changed := stream.CachedInfo().Config
	changed.Duplicates = 2 * time.Minute
	if _, err := js.UpdateStream(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if status, list := diagnose(t); status != exitFailed || !hasFinding(list, "streams", "problem", "duplicate_window is 2m0s, needs 100ms") {
		t.Errorf("a changed stream: status %d: %+v", status, list)
	}
}

func TestDoctorOnABrokerThatIsNewOrRefuses(t *testing.T) {
	srv := shippedBroker(t)
	as := func(user string) string {
		return strings.Replace(srv.ClientURL(), "nats://", "nats://"+user+":x-"+user+"@", 1)
	}
	env := []string{
		"ONEBELL_DATABASE_URL", pgtest.New(t), "ONEBELL_CHANNELS", "hooks:webhook",
		"ONEBELL_CHANNEL_MAIL_ADDR", "-", "ONEBELL_CHANNEL_MAIL_FROM", "-", "ONEBELL_CHANNEL_MAIL_TLS", "-",
	}

	setEnv(t, serveEnv(append(env, "ONEBELL_NATS_URL", as("dispatcher"))...))
	if status, list := diagnose(t); status != exitOK || !hasFinding(list, "streams", "warning", "is missing; serve creates it") || !hasFinding(list, "permissions", "ok", "") {
		t.Errorf("before the first start: status %d: %+v", status, list)
	}
	setEnv(t, serveEnv(append(env, "ONEBELL_NATS_URL", as("shop"))...))
	if status, list := diagnose(t); status != exitFailed || !hasFinding(list, "permissions", "problem", "onebell.submit") {
		t.Errorf("as a producer: status %d: %+v", status, list)
	}
	setEnv(t, serveEnv(append(env, "ONEBELL_NATS_URL", strings.Replace(as("dispatcher"), "x-dispatcher", canary, 1))...))
	if status, list := diagnose(t); status != exitFailed || !hasFinding(list, "broker", "problem", "it refuses this user") {
		t.Errorf("with a wrong password: status %d: %+v", status, list)
	}
}

func TestDoctorJudgesClocksByWhatItKnows(t *testing.T) {
	before := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	after := before.Add(300 * time.Millisecond) // the round trip; a clock within it agrees
	for _, tc := range []struct {
		database time.Time
		want     string
	}{
		{before.Add(100 * time.Millisecond), "ok"},
		{after.Add(time.Second), "ok"},
		{after.Add(3 * time.Second), "warning"},
		{before.Add(-3 * time.Second), "warning"},
		{after.Add(5 * time.Minute), "problem"},
		{before.Add(-time.Hour), "problem"},
	} {
		r := &report{}
		examineClock(tc.database, before, after, r)
		if len(r.findings) != 1 || r.findings[0].Result != tc.want {
			t.Errorf("%s: %+v, want %s", tc.database, r.findings, tc.want)
		}
	}
}

func TestDoctorEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	setEnv(t, serveEnv())
	start := time.Now()
	if r := examine(ctx); r.count("problem") == 0 {
		t.Error("nothing was checked, and nothing was wrong")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}
