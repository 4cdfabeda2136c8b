package fcm_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
	"github.com/onebell/onebell/channels/fcm"
)

// object compares JSON by its meaning.
func object(t *testing.T, raw []byte) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

func TestRenderedBody(t *testing.T) {
	ch := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{}, patience)
	for _, c := range []struct {
		name, recipient, content string
		collapse                 string
		given                    bool
		want                     string
	}{
		{
			"everything", deviceToken,
			`{"title":"Your parcel","body":"<b>&é","image":"https://cdn.example/p.png","url":"https://shop.example/o/1?a=b","data":{"order":"1"},"badge":2,"sound":"default"}`,
			collapse, false,
			`{"message":{"token":"` + deviceToken + `","data":{"order":"1","url":"https://shop.example/o/1?a=b"},
			 "notification":{"title":"Your parcel","body":"<b>&é","image":"https://cdn.example/p.png"},
			 "android":{"notification":{"tag":"` + collapse + `","sound":"default","notification_count":2}},
			 "apns":{"headers":{"apns-collapse-id":"` + collapse + `"},"payload":{"aps":{"badge":2,"sound":"default","mutable-content":1}},"fcm_options":{"image":"https://cdn.example/p.png"}},
			 "webpush":{"headers":{"Topic":"` + collapse + `"},"notification":{"tag":"` + collapse + `"},"fcm_options":{"link":"https://shop.example/o/1?a=b"}}}}`,
		},
		{
			"a producer's collapse class to a topic", "topic:news", `{"body":"Two to one","badge":0}`, collapse, true,
			`{"message":{"topic":"news","notification":{"body":"Two to one"},
			 "android":{"collapse_key":"` + collapse + `","notification":{"tag":"` + collapse + `"}},
			 "apns":{"headers":{"apns-collapse-id":"` + collapse + `"},"payload":{"aps":{"badge":0}}},
			 "webpush":{"headers":{"Topic":"` + collapse + `"},"notification":{"tag":"` + collapse + `"}}}}`,
		},
	} {
		got, err := ch.Render(channels.Message{CollapseKey: c.collapse, CollapseGiven: c.given, Recipient: c.recipient, Content: json.RawMessage(c.content)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object(t, []byte(c.want)), object(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// The collapse key fits each place that it is written to: Topic takes 32 of base64url, apns-collapse-id 64 bytes.
func TestContract(t *testing.T) {
	c := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{}, patience).Contract()
	if c.Guarantee != channels.Replaceable || c.CollapseFormat != "base64url32" || c.CollapseScope != channels.CollapseShown || c.KeyField != "" || c.MaxTTL != 28*24*time.Hour {
		t.Errorf("%+v", c)
	}
}

// B3: the limit is FCM's, over names and values together, and a smaller one for topics.
func TestB3PayloadLimits(t *testing.T) {
	ch := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{}, patience)
	content := func(size int) json.RawMessage { // title and name of the pair are two bytes
		return json.RawMessage(`{"title":"t","data":{"k":"` + strings.Repeat("x", size-2) + `"}}`)
	}
	for recipient, most := range map[string]int{deviceToken: 4096, "topic:news": 2048} {
		for size, fits := range map[int]bool{most - 1: true, most: true, most + 1: false} {
			if _, err := ch.Validate(recipient, content(size)); (err == nil) != fits {
				t.Errorf("%d bytes to %s: %v", size, recipient, err)
			}
			if _, err := ch.Render(channels.Message{Recipient: recipient, Content: content(size)}); (err == nil) != fits {
				t.Errorf("rendering %d bytes to %s: %v", size, recipient, err)
			}
		}
	}
	// Escapes are counted as what they stand for.
	if _, err := ch.Validate(deviceToken, json.RawMessage(`{"body":"`+strings.Repeat(`\u0416`, 2048)+`"}`)); err != nil {
		t.Errorf("4096 bytes in escapes: %v", err)
	}
}

// Attempts of one intent send the same bytes; what is the attempt's own is the time that is left, and the priority.
func TestHintsOfAnAttempt(t *testing.T) {
	r := newRig(t, channeltest.HTTPOptions{Reply: taken}, channeltest.HTTPOptions{}, patience)
	a := attempt(t, r, `{"title":"a","badge":3,"url":"https://shop.example/?a=<b>"}`)
	send := func(change func(*channels.Attempt)) map[string]any {
		t.Helper()
		b := a
		change(&b)
		if o := r.Send(t.Context(), b); o.Result() != channels.Accepted {
			t.Fatalf("%v %s %s", o.Result(), o.Code(), o.Message())
		}
		list := r.fcm.Arrivals()
		return object(t, list[len(list)-1].Body)["message"].(map[string]any)
	}
	get := func(m map[string]any, path ...string) any {
		for _, name := range path[:len(path)-1] {
			m, _ = m[name].(map[string]any)
		}
		return m[path[len(path)-1]]
	}
	send(func(*channels.Attempt) {})
	if got := r.fcm.Arrivals()[0].Body; !bytes.Equal(got, a.Rendered) {
		t.Errorf("sent %s, rendered %s", got, a.Rendered)
	}

	expires := time.Now().Add(time.Hour)
	m := send(func(a *channels.Attempt) { a.ExpiresAt, a.Priority = expires, "high" })
	ttl, err := time.ParseDuration(get(m, "android", "ttl").(string))
	if left := time.Until(expires); err != nil || ttl < left-time.Second || ttl > time.Hour {
		t.Errorf("ttl %v with %v left, %v", ttl, left, err)
	}
	for _, c := range []struct {
		want string
		path []string
	}{
		{strings.TrimSuffix(get(m, "android", "ttl").(string), "s"), []string{"webpush", "headers", "TTL"}},
		{strconv.FormatInt(expires.Unix(), 10), []string{"apns", "headers", "apns-expiration"}},
		{"high", []string{"android", "priority"}},
		{"10", []string{"apns", "headers", "apns-priority"}},
		{"high", []string{"webpush", "headers", "Urgency"}},
		{collapse, []string{"android", "notification", "tag"}},
		{collapse, []string{"apns", "headers", "apns-collapse-id"}},
		{collapse, []string{"webpush", "headers", "Topic"}},
	} {
		if got := get(m, c.path...); got != c.want {
			t.Errorf("%v is %v, want %s", c.path, got, c.want)
		}
	}
	m = send(func(a *channels.Attempt) { a.ExpiresAt, a.Priority = time.Now().Add(400*24*time.Hour), "low" })
	if got := get(m, "android", "ttl"); got != "2419200s" || get(m, "android", "priority") != "normal" || get(m, "apns", "headers", "apns-priority") != "5" || get(m, "webpush", "headers", "Urgency") != "low" {
		t.Errorf("%v", m)
	}
	m = send(func(a *channels.Attempt) { a.ExpiresAt = time.Now().Add(-time.Hour) })
	if got := get(m, "android", "ttl"); got != "0s" || get(m, "android", "priority") != nil {
		t.Errorf("past its time: %v", m)
	}
}

// The published schema and the check at admission say the same.
func TestSchemaAgreesWithValidate(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(fcm.Schema()))
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
	ch := newRig(t, channeltest.HTTPOptions{}, channeltest.HTTPOptions{}, patience)
	var samples []json.RawMessage
	for _, example := range doc.(map[string]any)["examples"].([]any) {
		b, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, b)
	}
	good := len(samples)
	for _, text := range []string{
		`{"title":"a","badge":3.0}`, `{"title":"a","url":"https://shop.example"}`, `{"title":"a","url":"https://"}`, `{"title":"a","url":"HTTPS://shop.example/"}`,
		`{"title":"a","url":"https://shop.example/","data":{"u":"x"}}`, `{"title":"a","data":{}}`, `{"title":"a","data":{"GCM":"x","fromage":"x"}}`, `{"title":"a","data":{"googleish":"x"}}`,
		`{"title":"\n"}`, `{"title":"a","sound":"bell.caf"}`, `{"title":"a","sound":"bell call"}`, `7`, `{"title":true}`,
	} {
		samples = append(samples, json.RawMessage(text))
	}
	for _, b := range badInputs() {
		if b.Code == channels.CodeContentInvalid {
			samples = append(samples, b.Content)
		}
	}
	for i, sample := range samples {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(sample))
		bySchema := err == nil && bytes.Equal(sample, bytes.ToValidUTF8(sample, nil)) && schema.Validate(value) == nil
		_, err = ch.Validate(deviceToken, sample)
		if bySchema != (err == nil) || i < good && err != nil {
			t.Errorf("%s: valid by the schema %v, by Validate %v", sample, bySchema, err)
		}
	}
}
