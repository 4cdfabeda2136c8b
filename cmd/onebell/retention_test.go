package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/migrations/pgtest"
)

// A process with the role dispatch forgets by itself, soon after its start, and shows it. What it forgets here was admitted long ago.
func TestServeForgetsWhatIsOver(t *testing.T) {
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		`insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, priority, effect_key, collapse_key, recipient_hash, traceparent,
			state, generation, updated_at, owner, key_scope)
			select ('01800000' || substr(gen_random_uuid()::text, 9))::uuid, substr(sha256(n::text::bytea), 1, 16), 'shop', 'mail', 'f:' || n, 0, 'keyed', now() - interval '400 days',
			now() - interval '400 days', 1, '', '', '', '', case n when 1 then 'unknown' else 'succeeded' end, 1, now() - interval '400 days', '', '' from generate_series(1, 3) n`,
		`insert into keys select fact, 0, id, 1, '', occurred_at from intents`,
		`insert into contents select id, 'ada@example.org', '{}', '', '' from intents`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	setEnv(t, serveEnv("ONEBELL_DATABASE_URL", url, "ONEBELL_NATS_URL", natstest.Start(t).URL(), "ONEBELL_ADMIN_ADDR", "127.0.0.1:0"))
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newApp(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "only what is not over is left", func() bool {
		var keys, contents, intents int
		err := conn.QueryRow(t.Context(), `select (select count(*) from keys), (select count(*) from contents), (select count(*) from intents)`).Scan(&keys, &contents, &intents)
		return err == nil && keys == 1 && contents == 1 && intents == 1
	})
	eventually(t, "the metrics say so", func() bool {
		status, body := fetch(t, "http://"+app.Addr()+"/metrics")
		return status == http.StatusOK && strings.Contains(body, `onebell_purged_total{kind="keys"} 2`) && strings.Contains(body, "onebell_watermark_age_seconds")
	})
}
