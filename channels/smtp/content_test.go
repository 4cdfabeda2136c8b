package smtp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onebell/onebell/channels"
)

// taken and refused are examples by which the published schema and the checks at admission are held to each other.
var taken = []string{
	goodContent,
	`{"subject":"Grüße 🎉","html":"<p>Hi</p>"}`,
	`{"subject":"x","text":"a\r\n\tb","html":"<img src=x onerror=alert(1)>","reply_to":"Help@example.org"}`,
	`{"subject":"x","text":"a","headers":{"X-Tenant":"Zürich  two","List-Unsubscribe":"<https://example.org/u?t=1>","List-Unsubscribe-Post":"List-Unsubscribe=One-Click","X-mixed-1":" padded "}}`,
	`{"subject":"x","text":"a","headers":{}}`,
	`{"subject":"x","text":"a","attachments":[]}`,
	`{"subject":"x","text":"a","attachments":[{"name":"Übersicht 1.pdf","type":"application/pdf","data":"JVBERi0="},{"name":"empty","type":"text/plain","data":""}]}`,
	`{"subject":"` + strings.Repeat("ü", 998) + `","text":"a"}`,
}

var refused = []struct{ content, field string }{
	{`null`, "content"},
	{`[]`, "content"},
	{`"x"`, "content"},
	{`{"subject":"x","text":"a","cc":"x@y.z"}`, "content"},
	{`{"subject":"x","text":"a","Text":"b"}`, "content"},
	{`{"text":"a"}`, "content.subject"},
	{`{"subject":"","text":"a"}`, "content.subject"},
	{`{"subject":1,"text":"a"}`, "content.subject"},
	{`{"subject":null,"text":"a"}`, "content.subject"},
	{`{"subject":"x\r\nBcc: x@y","text":"a"}`, "content.subject"},
	{`{"subject":"x\ny","text":"a"}`, "content.subject"},
	{`{"subject":"x\u0000y","text":"a"}`, "content.subject"},
	{`{"subject":"x\u0085y","text":"a"}`, "content.subject"},
	{`{"subject":"x\u2028y","text":"a"}`, "content.subject"},
	{`{"subject":"` + strings.Repeat("x", 999) + `","text":"a"}`, "content.subject"},
	{`{"subject":"x"}`, "content.text"},
	{`{"subject":"x","text":""}`, "content.text"},
	{`{"subject":"x","text":"a","html":""}`, "content.html"},
	{`{"subject":"x","text":["a"]}`, "content.text"},
	{`{"subject":"x","text":"a\u0000"}`, "content.text"},
	{`{"subject":"x","html":"a\u0000"}`, "content.html"},
	{`{"subject":"x","text":"a","reply_to":"A <a@b.c>"}`, "content.reply_to"},
	{`{"subject":"x","text":"a","reply_to":"a@b.c,d@e.f"}`, "content.reply_to"},
	{`{"subject":"x","text":"a","reply_to":"a@b.c\r\nBcc: d@e.f"}`, "content.reply_to"},
	{`{"subject":"x","text":"a","reply_to":""}`, "content.reply_to"},
	{`{"subject":"x","text":"a","headers":null}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":[]}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-A":1}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-A":""}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-A":"b\r\nBcc: x@y"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-A\r\nBcc":"x@y"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-A:":"b"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-":"b"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-A":"` + strings.Repeat("x", 901) + `"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"X-` + strings.Repeat("a", 63) + `":"b"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"List-Id":"Ü"}}`, "content.headers"},
	{`{"subject":"x","text":"a","headers":{"List-Id":" x"}}`, "content.headers"},
	{`{"subject":"x","text":"a","attachments":null}`, "content.attachments"},
	{`{"subject":"x","text":"a","attachments":{}}`, "content.attachments"},
	{`{"subject":"x","text":"a","attachments":["x"]}`, "content.attachments[0]"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain","data":"","x":1}]}`, "content.attachments[0]"},
	{`{"subject":"x","text":"a","attachments":[{"type":"text/plain","data":""}]}`, "content.attachments[0].name"},
	{`{"subject":"x","text":"a","attachments":[{"name":"../x","type":"text/plain","data":""}]}`, "content.attachments[0].name"},
	{`{"subject":"x","text":"a","attachments":[{"name":"x\"; y","type":"text/plain","data":""}]}`, "content.attachments[0].name"},
	{`{"subject":"x","text":"a","attachments":[{"name":"x\r\nX: y","type":"text/plain","data":""}]}`, "content.attachments[0].name"},
	{`{"subject":"x","text":"a","attachments":[{"name":"` + strings.Repeat("ü", 73) + `","type":"text/plain","data":""}]}`, "content.attachments[0].name"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","data":""}]}`, "content.attachments[0].type"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"message/rfc822","data":""}]}`, "content.attachments[0].type"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain; charset=x","data":""}]}`, "content.attachments[0].type"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain\r\nX: y","data":""}]}`, "content.attachments[0].type"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain"}]}`, "content.attachments[0].data"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain","data":"a"}]}`, "content.attachments[0].data"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain","data":"aGFs\nbG8="}]}`, "content.attachments[0].data"},
	{`{"subject":"x","text":"a","attachments":[{"name":"a","type":"text/plain","data":"-_-_"}]}`, "content.attachments[0].data"},
	{`{"subject":"x","text":"a","attachments":[` + strings.Repeat(`{"name":"a","type":"text/plain","data":""},`, 20) + `{"name":"a","type":"text/plain","data":""}]}`, "content.attachments"},
}

func refusedHeaders() []string {
	return []string{
		"To", "From", "Cc", "Bcc", "Sender", "Reply-To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "Return-Path",
		"Received", "DKIM-Signature", "Resent-To", "Disposition-Notification-To", "x-lower", "X-SMTPAPI", "X-Smtpapi", "X-MC-BccAddress",
		"X-Mailgun-Recipient-Variables", "X-MSYS-API", "X-SES-CONFIGURATION-SET", "X-PM-Tag", "X-EE-Idempotency-Key", "X-MJ-CustomID", "list-id",
	}
}

func TestContentIsRefusedWithFieldAndSentence(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1")
	for _, s := range taken {
		if _, err := c.Validate(testRecipient, json.RawMessage(s)); err != nil {
			t.Errorf("%.120s: %v", s, err)
		}
	}
	for _, r := range refused {
		wantRefusal(t, c, r.content, r.field)
	}
	for _, name := range refusedHeaders() {
		wantRefusal(t, c, fmt.Sprintf(`{"subject":"x","text":"a","headers":{%q:"v"}}`, name), "content.headers")
	}
	wantRefusal(t, c, `{"subject":"x","text":"a","headers":{"X-A":"1","X-a":"2"}}`, "content.headers")
	wantRefusal(t, c, "{\"subject\":\"x\",\"text\":\"\xff\"}", "content")
}

func wantRefusal(t *testing.T, c *Channel, content, field string) {
	t.Helper()
	_, err := c.Validate(testRecipient, json.RawMessage(content))
	var r *channels.Refusal
	if !errors.As(err, &r) || r.Code != channels.CodeContentInvalid || r.Field != field || len(r.Message) < 20 {
		t.Errorf("%.120s: %v, want a refusal of %s with a sentence", content, err, field)
	}
}

func TestContentTooLarge(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1")
	limit := c.Contract().MaxContentBytes
	frame := len(`{"subject":"x","text":""}`)
	fits := `{"subject":"x","text":"` + strings.Repeat("a", limit-frame) + `"}`
	if _, err := c.Validate(testRecipient, json.RawMessage(fits)); err != nil {
		t.Errorf("content of exactly the limit: %v", err)
	}
	_, err := c.Validate(testRecipient, json.RawMessage(fits+" "))
	var r *channels.Refusal
	if !errors.As(err, &r) || r.Code != channels.CodeContentTooLarge {
		t.Errorf("content of one byte more: %v", err)
	}
}

func TestTheRelaysKeyHeaderIsNotTheProducers(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1", func(cfg *Config) { cfg.IdempotencyHeader, cfg.KeyWindow = "X-Relay-Key", 1 })
	wantRefusal(t, c, `{"subject":"x","text":"a","headers":{"X-relay-key":"mine"}}`, "content.headers")
}

// TestSchemaSaysTheSame: what producers check against is what admission checks.
func TestSchemaSaysTheSame(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema())))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("content.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("content.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	for _, text := range taken {
		if err := valid(text); err != nil {
			t.Errorf("the schema refuses %.120s: %v", text, err)
		}
	}
	for _, r := range refused {
		if valid(r.content) == nil {
			t.Errorf("the schema takes %.120s", r.content)
		}
	}
	for _, name := range refusedHeaders() {
		if valid(fmt.Sprintf(`{"subject":"x","text":"a","headers":{%q:"v"}}`, name)) == nil {
			t.Errorf("the schema takes the header %s", name)
		}
	}
}
