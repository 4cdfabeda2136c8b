package smtp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

func TestD1AttemptsOfOneIntentSendTheSameBytes(t *testing.T) {
	p := newPeer(t, func(w at) (act, bool) { return act{end: closing}, w.step == "dot" && w.conn < 3 })
	c := newChannel(t, p.addr)
	a := hello(t, c)
	for _, want := range []channels.Result{channels.Unknown, channels.Unknown, channels.Accepted} {
		if o := c.Send(t.Context(), a); o.Result() != want {
			t.Errorf("%v, want %v", o.Result(), want)
		}
		a.Generation++
	}
	if n := len(p.dots()); n != 3 {
		t.Fatalf("%d mails on the wire for 3 attempts", n)
	}
	for _, m := range p.dots() {
		if !bytes.Equal(m.body, a.Rendered) {
			t.Errorf("an attempt sent other bytes: %q", m.body)
		}
	}
}

// TestUnreachable: nobody listens, or the name does not exist.
func TestUnreachable(t *testing.T) {
	p := newPeer(t, nil)
	p.stop()
	for addr, code := range map[string]string{p.addr: "connection-refused", "mail.invalid:25": "dns"} {
		c := newChannel(t, addr)
		o := c.Send(t.Context(), hello(t, c))
		wantOutcome(t, o, channels.NotSent, channels.PhaseConnect)
		if o.Code() != code {
			t.Errorf("%s: code %q (%s), want %q", addr, o.Code(), o.Message(), code)
		}
	}
}

func TestTLSPolicy(t *testing.T) {
	serving, roots := certificate(t)
	_, strangers := certificate(t)
	for name, row := range map[string]struct {
		mode   TLSMode
		offers bool
		roots  *x509.CertPool
		server string
		result channels.Result
		code   string
		secure bool
	}{
		"mandatory, offered":          {TLSMandatory, true, roots, "", accepted, "250", true},
		"mandatory, not offered":      {TLSMandatory, false, roots, "", misconf, "tls-policy", false},
		"opportunistic, offered":      {TLSOpportunistic, true, roots, "", accepted, "250", true},
		"opportunistic, not offered":  {TLSOpportunistic, false, roots, "", accepted, "250", false},
		"none":                        {TLSNone, true, roots, "", accepted, "250", false},
		"strange authority":           {TLSMandatory, true, strangers, "", misconf, "tls-certificate", false},
		"strange, opportunistic":      {TLSOpportunistic, true, strangers, "", misconf, "tls-certificate", false},
		"certificate of another name": {TLSMandatory, true, roots, "mail.example.org", misconf, "tls-certificate", false},
		"server without certificate":  {TLSMandatory, true, nil, "", misconf, "failed", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil)
			switch {
			case row.roots == nil:
				p.tls = &tls.Config{}
			case row.offers:
				p.tls = serving
			}
			c := newChannel(t, p.addr, func(cfg *Config) { cfg.TLS, cfg.RootCAs, cfg.ServerName = row.mode, row.roots, row.server })
			a := hello(t, c)
			o := c.Send(t.Context(), a)
			if o.Result() != row.result || o.Code() != row.code {
				t.Errorf("%v %s (%s), want %v %s", o.Result(), o.Code(), o.Message(), row.result, row.code)
			}
			if secure := strings.Count(strings.Join(p.lines(), "\n"), "EHLO") == 2; secure != row.secure {
				t.Errorf("encrypted: %v, want %v", secure, row.secure)
			}
			honest(t, c, p, a, o)
		})
	}
}

// TestW3CredentialFaultsAreTheChannels: a wrong password says nothing about a mail, and does not show itself.
func TestW3CredentialFaultsAreTheChannels(t *testing.T) {
	echo := base64.StdEncoding.EncodeToString([]byte("\x00" + testUser + "\x00" + testPassword))
	p := newPeer(t, always("AUTH", act{reply: "535 5.7.8 " + testUser + " with " + testPassword + " (" + echo + ") is not known"}), "AUTH PLAIN LOGIN")
	c := newChannel(t, p.addr, func(cfg *Config) { cfg.Username, cfg.Password = testUser, testPassword })
	for range 3 {
		o := c.Send(t.Context(), hello(t, c))
		wantOutcome(t, o, channels.Misconfigured, channels.PhaseReply)
		noSecret(t, o.Message())
	}
	err := c.Probe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "535") {
		t.Errorf("Probe: %v", err)
	}
	noSecret(t, fmt.Sprint(err))
}

func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, s := range []string{testPassword, testUser, base64.StdEncoding.EncodeToString([]byte(testPassword)), testRecipient, "Lovelace"} {
		if strings.Contains(text, s) {
			t.Errorf("%q stands in %q", s, text)
		}
	}
}

// TestPasswordsAreNotSentInTheOpen: what may be used to log in depends on who can listen.
func TestPasswordsAreNotSentInTheOpen(t *testing.T) {
	remote := newChannel(t, "mail.example.org:25", func(cfg *Config) { cfg.Username, cfg.Password = testUser, testPassword })
	for _, row := range []struct {
		offered string
		private bool
		want    string
	}{
		{"CRAM-MD5 PLAIN LOGIN", true, "PLAIN"},
		{"LOGIN CRAM-MD5", true, "LOGIN"},
		{"PLAIN LOGIN", false, ""},
		{"PLAIN CRAM-MD5", false, "CRAM-MD5"},
		{"PLAIN SCRAM-SHA-256 CRAM-MD5", false, "SCRAM-SHA-256"},
		{"XOAUTH2", true, ""},
		{"", true, ""},
	} {
		got := ""
		if m := remote.mechanism(strings.Fields(row.offered), row.private); m != nil {
			got = fmt.Sprintf("%T", m)
		}
		want := map[string]string{"PLAIN": "*smtp.plainAuth", "LOGIN": "*smtp.loginAuth", "CRAM-MD5": "*smtp.cramMD5Auth", "SCRAM-SHA-256": "*smtp.scramAuth", "": ""}[row.want]
		if got != want {
			t.Errorf("%q private %v: %s, want %s", row.offered, row.private, got, want)
		}
	}
	p := newPeer(t, nil)
	c := newChannel(t, p.addr, func(cfg *Config) { cfg.Username, cfg.Password = testUser, testPassword })
	o := c.Send(t.Context(), hello(t, c))
	wantOutcome(t, o, channels.Misconfigured, channels.PhaseConnect)
	if o.Code() != "auth-mechanism" || p.line("AUTH") != "" {
		t.Errorf("code %s, and the client said %q", o.Code(), p.line("AUTH"))
	}
}

// TestB6NonASCIILocalPart: it goes out where the server takes it, and is refused with that reason where not.
func TestB6NonASCIILocalPart(t *testing.T) {
	const recipient = "коля@xn--e1afmkfd.xn--p1ai"
	for _, offered := range []bool{true, false} {
		ext := []string{"8BITMIME"}
		if offered {
			ext = append(ext, "SMTPUTF8")
		}
		p := newPeer(t, nil, ext...)
		c := newChannel(t, p.addr)
		a := attempt(t, c, message(testKey(0), recipient, goodContent))
		o := c.Send(t.Context(), a)
		if !offered {
			wantOutcome(t, o, channels.Refused, channels.PhaseReply)
			if o.Code() != "no-smtputf8" || p.line("MAIL") != "" || o.DeadRecipient() {
				t.Errorf("code %s (%s), and the client said %q", o.Code(), o.Message(), p.line("MAIL"))
			}
			honest(t, c, p, a, o)
			continue
		}
		wantOutcome(t, o, channels.Accepted, channels.PhaseReply)
		if p.line("MAIL") != "MAIL FROM:<shop@example.com> BODY=8BITMIME SMTPUTF8" || p.line("RCPT") != "RCPT TO:<"+recipient+">" {
			t.Errorf("the client said %q and %q", p.line("MAIL"), p.line("RCPT"))
		}
		// Asked for where it is needed only, also on the same connection.
		if o := c.Send(t.Context(), hello(t, c)); o.Result() != channels.Accepted {
			t.Fatal(o.Message())
		}
		if m := p.dots()[1]; strings.Contains(m.from, "SMTPUTF8") || m.conn != 1 {
			t.Errorf("MAIL %s on connection %d", m.from, m.conn)
		}
	}
}

func TestServersSizeLimit(t *testing.T) {
	p := newPeer(t, nil, "SIZE 1000")
	c := newChannel(t, p.addr)
	a := attempt(t, c, message(testKey(0), testRecipient, contentOf(t, map[string]any{"subject": "s", "text": strings.Repeat("a", 1000)})))
	o := c.Send(t.Context(), a)
	wantOutcome(t, o, channels.Refused, channels.PhaseReply)
	if o.Code() != "too-large" || p.line("MAIL") != "" {
		t.Errorf("code %s, and the client said %q", o.Code(), p.line("MAIL"))
	}
	if o := c.Send(t.Context(), hello(t, c)); o.Result() != channels.Accepted || p.connections() != 1 {
		t.Errorf("a smaller one: %v on %d connections", o.Result(), p.connections())
	}
}

func TestServersEchoIsStruck(t *testing.T) {
	p := newPeer(t, always("RCPT", act{reply: "550-5.1.1 <" + testRecipient + ">: no user ada.lovelace here,\r\n550 5.1.1 ask postmaster@example.org"}))
	c := newChannel(t, p.addr)
	o := c.Send(t.Context(), hello(t, c))
	wantOutcome(t, o, channels.Refused, channels.PhaseReply)
	if !o.DeadRecipient() || o.Code() != "550" {
		t.Errorf("dead %v code %s", o.DeadRecipient(), o.Code())
	}
	if m := strings.ToLower(o.Message()); strings.Contains(m, "lovelace") || strings.Contains(m, "@") || !strings.Contains(m, "no user") {
		t.Errorf("message %q", o.Message())
	}
}

// TestServerThatNeverStopsTalking: one step reads a bounded amount.
func TestServerThatNeverStopsTalking(t *testing.T) {
	flood := strings.Repeat("250-"+strings.Repeat("x", 1000)+"\r\n", 2000)
	p := newPeer(t, always("dot", act{reply: flood + "250 ok"}))
	c := newChannel(t, p.addr)
	o := c.Send(t.Context(), hello(t, c))
	wantOutcome(t, o, channels.Unknown, channels.PhaseCommitted)
	if o.Code() != "not-smtp" {
		t.Errorf("code %s (%s)", o.Code(), o.Message())
	}
}

func TestContractFollowsTheHeader(t *testing.T) {
	plain := newChannel(t, "mail.example.org:25").Contract()
	if plain.Guarantee != channels.DuplicateVisible || plain.KeyField != "" || plain.KeyWindow != 0 {
		t.Errorf("without header %+v", plain)
	}
	keyed := func(user string, pass Secret) channels.Contract {
		return newChannel(t, "mail.example.org:25", func(cfg *Config) {
			cfg.IdempotencyHeader, cfg.KeyWindow, cfg.Username, cfg.Password = "Idempotency-Key", time.Hour, user, pass
		}).Contract()
	}
	one := keyed(testUser, testPassword)
	if one.Guarantee != channels.Keyed || one.KeyField != "Idempotency-Key" || one.KeyWindow != time.Hour || one.KeyScope == "" {
		t.Errorf("with header %+v", one)
	}
	if one.KeyScope == keyed("other", testPassword).KeyScope || one.KeyScope != keyed(testUser, "rotated-password").KeyScope {
		t.Error("the key's scope is the server and the account, and not the password")
	}
	// A mail that is rendered holds its key in the header of its day: a relay that reads another one does not see it.
	for header, same := range map[string]bool{"idempotency-key": true, "X-EE-Idempotency-Key": false} {
		other := newChannel(t, "mail.example.org:25", func(cfg *Config) {
			cfg.IdempotencyHeader, cfg.KeyWindow, cfg.Username, cfg.Password = header, time.Hour, testUser, testPassword
		}).Contract()
		if (other.KeyScope == one.KeyScope) != same {
			t.Errorf("with the key in %s: scope %s, with Idempotency-Key %s", header, other.KeyScope, one.KeyScope)
		}
	}
	b, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	noSecret(t, string(b))
}

func TestX5ConfigurationErrorsNameTheSettingAndNoSecret(t *testing.T) {
	good := Config{Addr: "mail.example.org:587", From: "shop@example.org", Username: testUser, Password: testPassword}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for want, mend := range map[string]func(*Config){
		"ADDR": func(c *Config) { c.Addr = testPassword }, "FROM": func(c *Config) { c.From = testPassword }, "FROM:": func(c *Config) { c.From = "коля@example.org" },
		"TLS": func(c *Config) { c.TLS = testPassword }, "PASSWORD": func(c *Config) { c.Username = "" }, "USERNAME": func(c *Config) { c.Password = "" },
		"HELLO": func(c *Config) { c.Helo = "a b" }, "KEY_WINDOW": func(c *Config) { c.IdempotencyHeader = "Idempotency-Key" },
		"IDEMPOTENCY_HEADER":                    func(c *Config) { c.KeyWindow = time.Hour },
		"IDEMPOTENCY_HEADER must":               func(c *Config) { c.IdempotencyHeader, c.KeyWindow = "Bcc", time.Hour },
		"IDEMPOTENCY_HEADER must be the name":   func(c *Config) { c.IdempotencyHeader, c.KeyWindow = "X: y", time.Hour },
		"IDEMPOTENCY_HEADER must be the name o": func(c *Config) { c.IdempotencyHeader, c.KeyWindow = "Message-Id", time.Hour },
		"TIMEOUT":                               func(c *Config) { c.Timeout, c.DotTimeout = time.Second, time.Second }, "positive": func(c *Config) { c.CommandTimeout = -1 },
	} {
		cfg := good
		mend(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error that names %s", err, want)
		}
		noSecret(t, fmt.Sprint(err))
	}
	b, err := json.Marshal(Secret(testPassword))
	if err != nil {
		t.Fatal(err)
	}
	noSecret(t, fmt.Sprintf("%v %+v %#v %s %q %s", good.Password, good.Password, good.Password, good.Password, good.Password, b))
}

func TestProbe(t *testing.T) {
	serving, roots := certificate(t)
	p := newPeer(t, nil, "AUTH PLAIN")
	p.tls = serving
	c := newChannel(t, p.addr, func(cfg *Config) {
		cfg.TLS, cfg.RootCAs, cfg.Username, cfg.Password = TLSMandatory, roots, testUser, testPassword
	})
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll(t, "QUIT", func() bool { return p.line("QUIT") != "" && p.live() == 0 })
	if p.line("AUTH") == "" || p.line("MAIL") != "" {
		t.Errorf("the client said %q", p.lines())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Probe(ctx); err == nil {
		t.Error("Probe under a context that is done succeeded")
	}
}
