package dispatch_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

func TestS1RepeatIsSettledInEveryState(t *testing.T) {
	r := newRig(t)
	gate := newGateway()
	defer close(gate.open)
	c := byText(map[string]sending{"hang": gate.hold(accepted), "refuse": ends(channels.OutcomeRefused("550", "no")), "lose": ends(lost())})
	r.dispatcher(c.as("mail"))
	say := func(q request, text string) request { return q.with("content", map[string]any{"text": text}) }
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	cases := map[intents.State]request{
		intents.Pending:         ask("pending:1").with("not_before", later),
		intents.Sending:         say(ask("sending:1"), "hang"),
		intents.Succeeded:       ask("succeeded:1"),
		intents.Rejected:        say(ask("rejected:1"), "refuse"),
		intents.UnknownState:    say(ask("unknown:1"), "lose"),
		intents.Cancelled:       ask("cancelled:1").with("not_before", later),
		intents.SupersededState: ask("superseded:1").with("not_before", later),
		intents.Expired:         ask("expired:1").with("not_before", later).with("expires_at", muchLater()),
	}
	for state, q := range cases {
		r.publish(wire.RequestSubject("shop", "mail"), q.bytes())
		if state == intents.Sending {
			<-gate.begun
		}
	}
	r.until("all admitted", func() bool { return r.count(`select count(*) from intents`) == len(cases) })
	r.cancel("shop", "mail", "cancelled:1")
	r.expire()
	r.submit("shop", "mail", ask("superseded:1").with("revision", 1).with("not_before", later))
	for state, q := range cases {
		i := r.reaches(identity("shop", "mail", q["key"].(string)), state)
		reply := r.submit("shop", "mail", q)
		if reply.Verdict != wire.Duplicate || reply.State != string(state) || reply.Intent != i.ID.String() {
			t.Errorf("%s: the repeat is answered %+v", state, reply)
		}
		r.publish(wire.RequestSubject("shop", "mail"), q.bytes())
	}
	stale := ask("stale:1").with("occurred_at", time.Now().Add(-100*time.Hour).Format(time.RFC3339))
	r.publish(wire.RequestSubject("shop", "mail"), stale.bytes())
	r.until("every repeat settled", func() bool { return r.pending() == 0 })
	if n := r.refusals()[wire.CodeOccurredAtStale]; n != 1 {
		t.Errorf("%d stale requests on record, want 1", n)
	}
	if c.count() != 4 {
		t.Errorf("%d sends, want 4: one for each that was sent at all", c.count())
	}
}

func TestS2PoisonAndPanicThenAHundredGood(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	c.check = func(recipient string, content json.RawMessage) (string, error) {
		if strings.Contains(string(content), "boom") {
			panic("validation of " + recipient)
		}
		return recipient, nil
	}
	c.draw = func(m channels.Message) ([]byte, error) {
		if strings.Contains(string(m.Content), "draw") {
			var none []byte
			_ = none[3]
		}
		return m.Content, nil
	}
	bad := [][]byte{
		[]byte(`{"key":`),
		ask("panic:1").with("content", map[string]any{"text": "boom"}).bytes(),
		ask("panic:2").with("content", map[string]any{"text": "draw"}).bytes(),
	}
	d := r.start(r.config(r.store, c.as("hooks")))
	for _, payload := range bad {
		r.publish(wire.RequestSubject("shop", "hooks"), payload)
	}
	for n := range 100 {
		r.publish(wire.RequestSubject("shop", "hooks"), ask(fmt.Sprintf("good:%d", n)).bytes())
	}
	r.until("the hundred sent", func() bool { return c.count() == 100 })
	r.quiet()
	if got := r.refusals(); got["json_invalid"] != 1 || got[wire.CodeInternal] != 2 {
		t.Errorf("refusals %v, want one json_invalid and two internal", got)
	}
	list, _ := r.store.ListRefusals(bg, intents.RefusalFilter{Limit: 10})
	for _, f := range list {
		if f.Sample == "" || f.StreamSeq == 0 || f.Subject != "onebell.request.shop.hooks" || strings.Contains(f.Sample, "boom") {
			t.Errorf("a refusal without trace, or with values: %+v", f)
		}
	}
	if d.metric(t, "quarantined_total") != 3 || strings.Contains(r.logs.String(), "ada@example.org") {
		t.Error("quarantined requests are not counted, or a recipient is in the log")
	}
}

func TestB1WhatPostgreSQLCannotStoreIsRefusedOnce(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	r.dispatcher(c.as("hooks"))
	raw := func(key, text string) []byte {
		return []byte(fmt.Sprintf(`{"key":%s,"occurred_at":%q,"recipient":"a@b.c","content":{"text":%s}}`, key, time.Now().Format(time.RFC3339), text))
	}
	for _, payload := range [][]byte{
		raw(`"nul:1"`, `"Hello\u0000"`), raw(`"a\u0000b:1"`, `"x"`), raw(`"utf:1"`, "\"\xc3\x28\""), raw(`"half:1"`, `"\ud800"`),
	} {
		r.publish(wire.RequestSubject("shop", "hooks"), payload)
		r.publish(wire.RequestSubject("shop", "hooks"), ask(fmt.Sprintf("good:%d", len(payload))).bytes())
	}
	r.publish("onebell.request.shop.\xc3\x28", ask("subject:1").bytes())
	r.quiet()
	got := r.refusals()
	if got["json_nul"] != 2 || got["json_utf8"] != 2 || got["channel_invalid"] != 1 {
		t.Errorf("refusals %v", got)
	}
	if n := r.count(`select count(*) from refusals`); n != 5 {
		t.Errorf("%d refusals stored, want 5: each once", n)
	}
}

func TestB2SameKeyTwiceInOneBatch(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	cfg := r.config(r.store, c.as("hooks"))
	if err := dispatch.EnsureStreams(bg, r.js, true); err != nil { // requests wait for the dispatcher, and come as one batch
		t.Fatal(err)
	}
	other := ask("k:2").with("content", map[string]any{"text": "something else"})
	for _, q := range []request{ask("k:1"), ask("k:1"), ask("k:2"), other, ask("k:3")} {
		r.publish(wire.RequestSubject("shop", "hooks"), q.bytes())
	}
	d := r.start(cfg)
	r.quiet()
	if a, dup, con := d.metric(t, "requests_total", "accepted"), d.metric(t, "requests_total", "duplicate"), d.metric(t, "requests_total", "conflict"); a != 3 || dup != 1 || con != 1 {
		t.Errorf("accepted %v, duplicate %v, conflict %v; want 3, 1, 1", a, dup, con)
	}
	list, _ := r.store.ListRefusals(bg, intents.RefusalFilter{Limit: 10})
	if len(list) != 1 || fmt.Sprint(list[0].Fields) != "[content]" || list[0].Verdict != intents.Conflict {
		t.Errorf("the conflict is not on record by its field: %+v", list)
	}
	if c.count() != 3 {
		t.Errorf("%d sends, want 3", c.count())
	}
}

func TestB3SizesAreRefusedWithoutHarmToNeighbours(t *testing.T) {
	r := newRig(t)
	contract := keyed
	contract.MaxContentBytes = 4096
	small, large := on(contract), on(keyed)
	r.dispatcher(small.as("small"), large.as("large"))
	text := func(n int) map[string]any { return map[string]any{"text": strings.Repeat("x", n-len(`{"text":""}`))} }
	r.publish(wire.RequestSubject("shop", "small"), ask("size:1").with("content", text(4096)).bytes())
	r.publish(wire.RequestSubject("shop", "small"), ask("size:2").with("content", text(4097)).bytes())
	fit := func(key string, size int) []byte {
		q := ask(key).with("content", text(20))
		return ask(key).with("content", text(20+size-len(q.bytes()))).bytes()
	}
	r.publish(wire.RequestSubject("shop", "large"), fit("large:1", wire.MaxPayload))
	r.publish(wire.RequestSubject("shop", "large"), fit("large:2", wire.MaxPayload+1))
	if _, err := r.js.Publish(bg, wire.RequestSubject("shop", "large"), fit("large:3", dispatch.MaxRequestBytes+1)); err == nil {
		t.Error("the broker took more than it may")
	}
	r.publish(wire.RequestSubject("shop", "small"), ask("size:3").bytes())
	r.quiet()
	if got := r.refusals(); got[wire.CodeContentTooLarge] != 1 || got[wire.CodePayloadTooLarge] != 1 || len(got) != 2 {
		t.Errorf("refusals %v", got)
	}
	if small.count() != 2 || large.count() != 1 {
		t.Errorf("%d and %d sends, want 2 and 1", small.count(), large.count())
	}
}

func TestD4BrokerDuplicateWindowIsNotTheDedup(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	d := r.dispatcher(c.as("hooks"))
	for range 4 {
		r.publishAnew(wire.RequestSubject("shop", "hooks"), ask("receipt:1").bytes(), "receipt:1")
	}
	r.quiet() // what is wiped before it is read is gone
	r.wipe()
	r.until("consuming again", func() bool { return len(d.Ready()) == 0 })
	r.publishAnew(wire.RequestSubject("shop", "hooks"), ask("receipt:1").bytes(), "receipt:1")
	r.until("all answered", func() bool { return d.metric(t, "requests_total", "duplicate") >= 4 })
	if c.count() != 1 {
		t.Errorf("%d sends, want 1", c.count())
	}
}

func TestL4ConflictIsNotHiddenByTheMessageID(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	r.dispatcher(c.as("hooks"))
	for _, caller := range []string{"shop", "bank"} {
		for _, text := range []string{"one", "two"} {
			r.publishAnew(wire.RequestSubject(caller, "hooks"), ask("receipt:1").with("content", map[string]any{"text": text}).bytes(), "receipt:1")
		}
	}
	r.quiet()
	if n := r.refusals()[wire.CodeKeyConflict]; n != 2 || c.count() != 2 {
		t.Errorf("%d conflicts and %d sends, want 2 and 2", n, c.count())
	}
}

func TestX2CallersShareNothing(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	r.dispatcher(c.as("hooks"))
	a := r.submit("a", "hooks", ask("receipt:1"))
	b := r.submit("b", "hooks", ask("receipt:1").with("content", map[string]any{"text": "of b"}))
	if a.Verdict != wire.Accepted || b.Verdict != wire.Accepted || a.Intent == b.Intent {
		t.Errorf("two callers with one key: %+v, %+v", a, b)
	}
	r.submit("a", "hooks", ask("receipt:2"))
	ref := wire.Ref{Channel: "hooks", Key: "receipt:2"}
	msg, err := r.nc.Request(wire.StatusSubject("b"), ref.Encode(), patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.DecodeStatus(msg.Data); err == nil || err.(*wire.Refusal).Code != wire.CodeNotFound {
		t.Errorf("b's question for a's intent: %v", err)
	}
	if got := r.cancel("b", "hooks", "receipt:2"); got.Result != wire.CancelNotFound {
		t.Errorf("b cancels a's intent: %+v", got)
	}
	if reply := r.submit("a", "hooks", ask("receipt:3").with("caller", "b")); reply.Code != wire.CodeMemberUnknown {
		t.Errorf("a caller in the payload: %+v", reply)
	}
	r.publish("onebell.request.a.hooks.b", ask("receipt:4").bytes())
	r.quiet()
	if n := r.refusals()[wire.CodeSubjectInvalid]; n != 1 {
		t.Errorf("a subject with a part too many: %v", r.refusals())
	}
	first := c.all()
	if first[0].EffectKey == first[1].EffectKey {
		t.Error("two callers' effects have one key")
	}
}
