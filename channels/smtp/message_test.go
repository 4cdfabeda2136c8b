package smtp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onebell/onebell/channels"
)

// part is a leaf of a mail, decoded.
type part struct{ mediaType, filename, body string }

func parse(t *testing.T, raw []byte) (mail.Header, []part) {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, leaves(t, m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), "", m.Body)
}

func leaves(t *testing.T, contentType, encoding, filename string, body io.Reader) []part {
	t.Helper()
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatalf("content type %q: %v", contentType, err)
	}
	if strings.HasPrefix(mediaType, "multipart/") {
		out := []part{{mediaType: mediaType}}
		for r := multipart.NewReader(body, params["boundary"]); ; {
			p, err := r.NextRawPart()
			if err == io.EOF {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, leaves(t, p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p.FileName(), p)...)
		}
	}
	switch encoding {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return []part{{mediaType, filename, string(b)}}
}

func subjectOf(t *testing.T, h mail.Header) string {
	t.Helper()
	s, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// b5Subjects must read back from the wire as they were given.
var b5Subjects = []string{
	"This is a long test message with Umlauts üä, that will be broken up into multiple UTF encoded parts.",
	"가장 높은 산, 가장 긴 강", strings.Repeat("🎉", 300), strings.Repeat("ü", 998), strings.Repeat("word ", 199) + "end",
	"plain", "two  blanks   in a  row and so long that it has to be folded  somewhere  between  them  anyway", " leading and trailing ",
	strings.Repeat("x", 998), "=?utf-8?q?not_encoded?= but looks so", "tab is refused, ~!@#$%^&*()_+ is not", `<img src=x onerror=alert(1)>`, "a\u0301\u200d👩‍👩‍👧",
}

func TestB5SubjectsSurviveTheWire(t *testing.T) {
	p := newPeer(t, nil)
	c := newChannel(t, p.addr)
	for i, subject := range b5Subjects {
		content := map[string]any{"subject": subject, "text": "x"}
		if utf8.RuneCountInString(subject) <= maxHeaderValue {
			content["headers"] = map[string]string{"X-Same": subject}
		}
		a := attempt(t, c, message(testKey(byte(i)), testRecipient, contentOf(t, content)))
		if o := c.Send(t.Context(), a); o.Result() != channels.Accepted {
			t.Fatalf("%v %s", o.Result(), o.Message())
		}
		h, _ := parse(t, p.dots()[i].body)
		if got := subjectOf(t, h); got != subject {
			t.Errorf("subject %q came as %q", subject, got)
		}
		if same, err := new(mime.WordDecoder).DecodeHeader(h.Get("X-Same")); content["headers"] != nil && (err != nil || same != subject) {
			t.Errorf("header %q came as %q, %v", subject, same, err)
		}
		if len(h["Message-Id"]) != 1 || h.Get("Message-ID") != "<"+a.EffectKey+"@example.com>" {
			t.Errorf("Message-ID %q", h["Message-Id"])
		}
		for line := range strings.SplitSeq(string(p.dots()[i].body), "\r\n") {
			if len(line) > 78 {
				t.Errorf("a line of %d bytes: %q", len(line), line)
			}
		}
	}
}

func TestHeadersSayWhatWasAskedFor(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1", func(cfg *Config) {
		cfg.From, cfg.IdempotencyHeader, cfg.KeyWindow = "Büro <shop@Example.COM>", "Resend-Idempotency-Key", 24*time.Hour
	})
	m := message(testKey(2), testRecipient, `{"subject":"s","text":"t","reply_to":"Help@Example.org",
		"headers":{"X-Tenant":"Zürich","List-Unsubscribe":"<https://example.org/`+strings.Repeat("u", 200)+`>","References":"<a@b> <c@d>"}}`)
	h, parts := parse(t, attempt(t, c, m).Rendered)
	from, err := h.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Büro" || from[0].Address != "shop@example.com" {
		t.Errorf("From %v, %v", from, err)
	}
	tenant, _ := new(mime.WordDecoder).DecodeHeader(h.Get("X-Tenant"))
	for name, got := range map[string][2]string{
		"To": {h.Get("To"), "<" + testRecipient + ">"}, "Reply-To": {h.Get("Reply-To"), "<Help@example.org>"}, "X-Tenant": {tenant, "Zürich"},
		"Date": {h.Get("Date"), "Mon, 30 Nov 2026 10:01:00 +0000"}, "References": {h.Get("References"), "<a@b> <c@d>"},
		"List-Unsubscribe": {h.Get("List-Unsubscribe"), "<https://example.org/" + strings.Repeat("u", 200) + ">"},
		"key":              {h.Get("Resend-Idempotency-Key"), m.EffectKey}, "Mime-Version": {h.Get("Mime-Version"), "1.0"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %q, want %q", name, got[0], got[1])
		}
	}
	for name, values := range h {
		if len(values) != 1 || name == "User-Agent" || name == "X-Mailer" || name == "Bcc" {
			t.Errorf("%s: %q", name, values)
		}
	}
	if len(parts) != 1 || parts[0].body != "t\r\n" {
		t.Errorf("parts %q", parts)
	}
}

const bodyText, bodyHTML = "Grüße, <b>Ada</b> & co\n.dot\n", "<p>Gr&uuml;&szlig;e — é</p>\n<a href=\"https://evil.example\">x</a>\n"

func contentOf(t *testing.T, members map[string]any) string {
	t.Helper()
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBodiesAndAttachmentsArriveWhole(t *testing.T) {
	file := map[string]string{"name": "Übersicht – " + strings.Repeat("語", 60), "type": "application/pdf", "data": base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0, 1, 2, '\n', '.'}, 999))}
	wire := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	plain, rich := part{"text/plain", "", wire(bodyText)}, part{"text/html", "", wire(bodyHTML)}
	attached := part{"application/pdf", file["name"], string(bytes.Repeat([]byte{0, 1, 2, '\n', '.'}, 999))}
	mixed, alternative := part{mediaType: "multipart/mixed"}, part{mediaType: "multipart/alternative"}
	c := newChannel(t, "127.0.0.1:1")
	for name, want := range map[string]struct {
		content map[string]any
		parts   []part
	}{
		"text":           {map[string]any{"text": bodyText}, []part{plain}},
		"html":           {map[string]any{"html": bodyHTML}, []part{rich}},
		"both":           {map[string]any{"text": bodyText, "html": bodyHTML}, []part{alternative, plain, rich}},
		"text and file":  {map[string]any{"text": bodyText, "attachments": []any{file}}, []part{mixed, plain, attached}},
		"html and files": {map[string]any{"html": bodyHTML, "attachments": []any{file, file}}, []part{mixed, rich, attached, attached}},
		"all":            {map[string]any{"text": bodyText, "html": bodyHTML, "attachments": []any{file}}, []part{mixed, alternative, plain, rich, attached}},
	} {
		want.content["subject"] = "s"
		m := message(testKey(3), testRecipient, contentOf(t, want.content))
		raw := attempt(t, c, m).Rendered
		_, got := parse(t, raw)
		if len(got) != len(want.parts) {
			t.Errorf("%s: parts %q", name, got)
			continue
		}
		for i := range got {
			if got[i] != want.parts[i] {
				t.Errorf("%s: part %d is %.200q, want %.200q", name, i, got[i], want.parts[i])
			}
		}
		// D1: nothing is drawn at random and no clock is read, so a second rendering has the same bytes.
		if again := attempt(t, c, m).Rendered; !bytes.Equal(again, raw) {
			t.Errorf("%s: two renderings differ", name)
		}
	}
}

func TestD1EachIntentHasItsOwnMessageID(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1")
	one := attempt(t, c, message(testKey(0), testRecipient, goodContent)).Rendered
	two := attempt(t, c, message(testKey(1), testRecipient, goodContent)).Rendered
	h1, _ := parse(t, one)
	h2, _ := parse(t, two)
	if h1.Get("Message-ID") == h2.Get("Message-ID") || h1.Get("Message-ID") == "" {
		t.Errorf("Message-IDs %q and %q", h1.Get("Message-ID"), h2.Get("Message-ID"))
	}
}

// TestX4TextIsNeverHTML: text goes out as text, unescaped; html as it was given.
func TestX4TextIsNeverHTML(t *testing.T) {
	const evil = "<img src=x onerror=alert(1)> [CLICK](https://evil.example)"
	c := newChannel(t, "127.0.0.1:1")
	h, parts := parse(t, attempt(t, c, message(testKey(4), testRecipient, contentOf(t, map[string]any{"subject": evil, "text": evil}))).Rendered)
	if subjectOf(t, h) != evil || len(parts) != 1 || parts[0] != (part{"text/plain", "", evil + "\r\n"}) {
		t.Errorf("subject %q, parts %q", h.Get("Subject"), parts)
	}
}

func TestRenderRefusesWhatCannotBeAMail(t *testing.T) {
	c := newChannel(t, "127.0.0.1:1")
	good := message(testKey(0), testRecipient, goodContent)
	for name, mend := range map[string]func(*channels.Message){
		"no date": func(m *channels.Message) { m.Date = time.Time{} }, "no key": func(m *channels.Message) { m.EffectKey = "" },
		"key with header": func(m *channels.Message) { m.EffectKey = "x>\r\nBcc: a@b.c" }, "not normal": func(m *channels.Message) { m.Recipient = "a@B.C" },
		"bad content": func(m *channels.Message) { m.Content = json.RawMessage(`{}`) },
	} {
		m := good
		mend(&m)
		if out, err := c.Render(m); err == nil {
			t.Errorf("%s: rendered %q", name, out)
		}
	}
}
