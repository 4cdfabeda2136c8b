package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/smtp"
	"net/textproto"
	"strings"
	"testing"
)

func newInbox(t *testing.T, script Script) *Inbox {
	t.Helper()
	in, err := NewInbox(InboxOptions{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// rich is a message as mail programs write them: encoded words, alternatives, an attachment.
var rich = strings.ReplaceAll(`From: a@example.org
To: ada@example.org
Message-ID: <1@example.org>
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe_=3Cscript=3Ealert(1)=3C/script=3E?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=out

--out
Content-Type: multipart/alternative; boundary=in

--in
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

caf=C3=A9 <b>not bold</b>
--in
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: base64

PGltZyBzcmM9eD4=
--in--
--out
Content-Type: application/pdf
Content-Disposition: attachment; filename="receipt.pdf"
Content-Transfer-Encoding: base64

AAAA
--out--
`, "\n", "\r\n")

func sendMail(t *testing.T, in *Inbox, to, message string) error {
	t.Helper()
	return smtp.SendMail(in.SMTPAddr(), nil, "a@example.org", []string{to}, []byte(message))
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("%s: policy %q", url, csp)
	}
	return string(body)
}

func TestInboxReadsMessagesAsPeopleWould(t *testing.T) {
	in := newInbox(t, nil)
	if err := sendMail(t, in, "ada@example.org", rich); err != nil {
		t.Fatal(err)
	}
	mails, err := in.Wait(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m := mails[0]
	if m.Subject != "Grüße <script>alert(1)</script>" || m.MessageID != "<1@example.org>" || m.Problem != "" {
		t.Errorf("got %+v", m)
	}
	if strings.TrimSpace(m.Text) != "café <b>not bold</b>" || m.HTML != "<img src=x>" {
		t.Errorf("text %q, html %q", m.Text, m.HTML)
	}
	if len(m.Attachments) != 1 || !strings.Contains(m.Attachments[0], "receipt.pdf") {
		t.Errorf("attachments %q", m.Attachments)
	}
	if string(m.Raw) != rich {
		t.Errorf("not as it came: %q", m.Raw)
	}
	var listed []Mail
	if err := json.Unmarshal([]byte(get(t, in.URL()+"messages")), &listed); err != nil || len(listed) != 1 || listed[0].Subject != m.Subject {
		t.Errorf("listed %+v, %v", listed, err)
	}
	if raw := get(t, in.URL()+"messages/1/raw"); raw != rich {
		t.Errorf("raw %q", raw)
	}
}

func TestPageShowsWhatStrangersSentAsText(t *testing.T) {
	in := newInbox(t, nil)
	if got := get(t, in.URL()+"messages"); strings.TrimSpace(got) != "[]" {
		t.Errorf("an empty inbox lists %q", got)
	}
	if err := sendMail(t, in, "ada@example.org", rich); err != nil {
		t.Fatal(err)
	}
	page := get(t, in.URL())
	for _, markup := range []string{"<script", "<b>", "<img"} {
		if strings.Contains(page, markup) {
			t.Errorf("the page holds %s", markup)
		}
	}
	if !strings.Contains(page, "Grüße &lt;script&gt;") {
		t.Errorf("the subject is missing: %s", page)
	}
}

func TestUnreadableMailIsKeptAndSaid(t *testing.T) {
	in := newInbox(t, nil)
	for name, message := range map[string]string{
		"no header":     "\r\nhello",
		"bad base64":    "Content-Transfer-Encoding: base64\r\n\r\n####\r\n",
		"bad type":      "Content-Type: ;;\r\n\r\nx\r\n",
		"no end":        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n",
		"unknown words": "Subject: =?koi8-r?q?x?=\r\n\r\nx\r\n",
	} {
		if err := sendMail(t, in, "ada@example.org", message); err != nil {
			t.Fatal(err)
		}
		mails := in.Mails()
		if m := mails[len(mails)-1]; m.Problem == "" && name != "no header" {
			t.Errorf("%s: no problem in %+v", name, m)
		}
	}
	get(t, in.URL())
}

// TestInboxFates is the sender's view of each fate, and whether the mail is there.
func TestInboxFates(t *testing.T) {
	fates := map[string]Fate{"taken": Take(), "lost": LoseReply(), "dropped": Drop(), "refused": Answer(452, "full")}
	in := newInbox(t, func(a Arrival) Fate { return fates[strings.TrimSuffix(a.To, "@example.org")] })
	for to, want := range map[string]struct {
		arrives bool
		code    int // 0: an answer of 250; -1: a broken connection
	}{"taken": {true, 0}, "lost": {true, -1}, "dropped": {false, -1}, "refused": {false, 452}} {
		before := len(in.Mails())
		err := sendMail(t, in, to+"@example.org", "Subject: x\r\n\r\n"+strings.Repeat("line\r\n", 100_000))
		var answer *textproto.Error
		switch {
		case want.code == 0 && err != nil, want.code == -1 && (err == nil || errors.As(err, &answer)), want.code > 0 && (!errors.As(err, &answer) || answer.Code != want.code):
			t.Errorf("%s: the sender got %v", to, err)
		}
		if arrived := len(in.Mails()) > before; arrived != want.arrives {
			t.Errorf("%s: arrived = %v", to, arrived)
		}
	}
}

func TestScriptCountsEveryArrival(t *testing.T) {
	var in *Inbox
	var seen []int
	in = newInbox(t, func(a Arrival) Fate {
		seen = append(seen, a.N*10+len(in.Mails())) // a script may look at what has come
		if a.N == 2 {
			return Answer(550, "no")
		}
		return Take()
	})
	for range 3 {
		_ = sendMail(t, in, "x@example.org", "Subject: x\r\n\r\nx") // the second is refused
	}
	if len(seen) != 3 || seen[0] != 10 || seen[1] != 21 || seen[2] != 31 {
		t.Errorf("got %v", seen)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	in := newInbox(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.Wait(ctx, 1); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyTheNewestAreKept(t *testing.T) {
	var list []int
	for i := range maxKept + 5 {
		list = keep(list, i)
	}
	if len(list) != maxKept || list[0] != 5 {
		t.Errorf("%d kept, the oldest is %d", len(list), list[0])
	}
}

func TestInboxEndsRightAfterItsStart(t *testing.T) {
	for range 50 { // the servers may not have begun to listen by then
		in, err := NewInbox(InboxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(in.Close(), in.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
