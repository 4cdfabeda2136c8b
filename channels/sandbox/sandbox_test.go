package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/sandbox"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestConformance(t *testing.T) {
	for _, g := range []channels.Guarantee{channels.Keyed, channels.Replaceable, channels.DuplicateVisible} {
		t.Run(string(g), func(t *testing.T) { channeltest.Run(t, kit(g)) })
	}
}

type peer struct{ *sandbox.Channel }

func (p peer) Connections() int { return p.Attempts() }

func (p peer) Arrivals() []channeltest.Arrival {
	var list []channeltest.Arrival
	for _, c := range p.Calls() {
		list = append(list, channeltest.Arrival{Key: c.Key, Recipient: c.Recipient, Body: c.Body})
	}
	return list
}

// words are the faults that a script can play.
var words = map[channeltest.Fault]string{
	channeltest.FaultNone:        "accepted",
	channeltest.FaultDialRefused: "not-sent",
	channeltest.FaultStall:       "stall",
	channeltest.FaultCloseAfter:  "unknown",
	channeltest.FaultResetAfter:  "unknown-unapplied",
	channeltest.FaultSilence:     "silence",
	"refused":                    "refused",
	"dead-recipient":             "dead-recipient",
	"throttled":                  "throttled",
	"misconfigured":              "misconfigured",
}

func kit(g channels.Guarantee) channeltest.Kit {
	k := channeltest.Kit{
		New: func(t *testing.T, env channeltest.Env) channeltest.Subject {
			ch, err := sandbox.New(sandbox.Config{Guarantee: g, Script: []string{words[env.Fault]}, Timeout: env.Timeout})
			if err != nil {
				t.Fatal(err)
			}
			return channeltest.Subject{
				Channel: ch, Peer: peer{ch},
				Recipient: func(i int) string { return fmt.Sprintf("canary-%d", i) }, Canaries: []string{"canary-"},
			}
		},
		Exempt:    map[channeltest.Fault]string{},
		EffectKey: func(i int) string { return fmt.Sprintf("%064d", i) },
		Content:   func(i int) json.RawMessage { return json.RawMessage(`{"text":"` + channeltest.Marker(i) + `"}`) },
		Bad:       bad(),
	}
	connect, committed, reply := []channels.Phase{channels.PhaseConnect}, []channels.Phase{channels.PhaseCommitted}, []channels.Phase{channels.PhaseReply}
	k.Cases = []channeltest.Case{
		{Fault: channeltest.FaultNone, Result: channels.Accepted, Phases: reply, Arrivals: 1},
		{Fault: channeltest.FaultDialRefused, Result: channels.NotSent, Phases: connect},
		{Fault: channeltest.FaultStall, Result: channels.NotSent, Phases: connect},
		{Fault: channeltest.FaultCloseAfter, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultResetAfter, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultSilence, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: "refused", Result: channels.Refused, Phases: reply, Arrivals: 1},
		{Fault: "dead-recipient", Result: channels.Refused, Phases: reply, Arrivals: 1},
		{Fault: "throttled", Result: channels.Throttled, Phases: reply, Arrivals: 1},
		{Fault: "misconfigured", Result: channels.Misconfigured, Phases: connect},
	}
	for _, f := range channeltest.Required() {
		if _, ok := words[f]; !ok {
			k.Exempt[f] = "there is no wire"
		}
	}
	return k
}

func bad() []channeltest.BadInput {
	content := func(name, field, text string) channeltest.BadInput {
		return channeltest.BadInput{Name: name, Content: json.RawMessage(text), Code: channels.CodeContentInvalid, Field: field}
	}
	return []channeltest.BadInput{
		{Name: "control character", Recipient: "ada\x07 the receiver", Code: channels.CodeRecipientInvalid},
		{Name: "long recipient", Recipient: strings.Repeat("a", 257), Code: channels.CodeRecipientInvalid},
		content("list", "content", `[]`),
		content("unknown member", "content", `{"Text":"a"}`),
		content("empty script", "content.script", `{"script":[]}`),
		content("null script", "content.script", `{"script":null}`),
		content("unknown word", "content.script", `{"script":["maybe"]}`),
		content("long script", "content.script", `{"script":[`+strings.Repeat(`"accepted",`, 100)+`"accepted"]}`),
		content("number as text", "content.text", `{"text":1}`),
		content("null text", "content.text", `{"text":null}`),
	}
}

func TestSchemaAgreesWithValidate(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(sandbox.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	samples := []string{`{}`, `{"text":"hello"}`, `{"script":["unknown","accepted"]}`}
	for _, word := range sandbox.Words() {
		samples = append(samples, fmt.Sprintf(`{"script":[%q]}`, word))
	}
	for _, b := range bad() {
		if b.Content != nil {
			samples = append(samples, string(b.Content))
		}
	}
	ch, _ := sandbox.New(sandbox.Config{Timeout: time.Second})
	for _, sample := range samples {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(sample))
		bySchema := err == nil && schema.Validate(value) == nil
		if _, err = ch.Validate("ada", json.RawMessage(sample)); bySchema != (err == nil) {
			t.Errorf("%s: valid by the schema %v, by Validate %v", sample, bySchema, err)
		}
	}
}

// The content's script goes before the configuration's, a claim plays a word, the last word stays.
func TestScriptFollowsTheClaims(t *testing.T) {
	ch, err := sandbox.New(sandbox.Config{Script: []string{"refused"}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, body := range []string{`{"script":["not-sent","unknown","accepted"]}`, `{}`} {
		for generation := range int32(5) {
			o := ch.Send(t.Context(), channels.Attempt{Generation: generation, EffectKey: "k" + body, Recipient: "ada", Rendered: []byte(body)})
			got = append(got, o.Result().String())
		}
	}
	want := []string{"not-sent", "not-sent", "unknown", "accepted", "accepted", "refused", "refused", "refused", "refused", "refused"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What recipients see is what the guarantee says.
func TestLedgerHoldsTheGuarantee(t *testing.T) {
	for g, want := range map[channels.Guarantee][]string{
		channels.Keyed:            {"one", "other"},
		channels.Replaceable:      {"other"},
		channels.DuplicateVisible: {"one", "one", "other"},
	} {
		ch, err := sandbox.New(sandbox.Config{Guarantee: g, Script: []string{"unknown"}, Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "one", "other"} {
			ch.Send(t.Context(), channels.Attempt{Generation: 1, EffectKey: "key of " + text, CollapseKey: "c", Recipient: "ada", Rendered: []byte(`{"text":"` + text + `"}`)})
		}
		var got []string
		for _, call := range ch.Shown() {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(string(call.Body), `{"text":"`), `"}`))
		}
		if diff := cmp.Diff(want, got); diff != "" || len(ch.Calls()) != 3 {
			t.Errorf("%s: %s; %d calls", g, diff, len(ch.Calls()))
		}
	}
}

func TestPanicIsScriptable(t *testing.T) {
	ch, err := sandbox.New(sandbox.Config{Script: []string{"panic"}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil || len(ch.Shown()) != 1 {
			t.Error("no panic after the effect")
		}
	}()
	ch.Send(t.Context(), channels.Attempt{Generation: 1, Rendered: []byte(`{}`)})
}

func TestNoOpIsKeyedAndKeepsNothing(t *testing.T) {
	ch := sandbox.NoOp()
	if _, err := channels.NewRegistry(channels.Entry{Name: "bench", Type: "sandbox", Channel: ch, Settings: channels.Settings{Concurrency: 1, MaxAttempts: 1}}); err != nil {
		t.Fatal(err)
	}
	o := ch.Send(t.Context(), channels.Attempt{Generation: 1, Rendered: []byte(`{}`)})
	if o.Result() != channels.Accepted || ch.Contract().Guarantee != channels.Keyed || ch.Calls() != nil || ch.Attempts() != 0 {
		t.Errorf("%v %+v", o.Result(), ch.Contract())
	}
}

func TestConfigErrors(t *testing.T) {
	for name, c := range map[string]sandbox.Config{
		"no timeout": {}, "unknown word": {Timeout: 1, Script: []string{"maybe"}}, "unknown guarantee": {Timeout: 1, Guarantee: "strong"},
	} {
		if _, err := sandbox.New(c); err == nil {
			t.Errorf("%s: admitted", name)
		}
	}
}
