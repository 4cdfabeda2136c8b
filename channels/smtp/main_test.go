package smtp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onebell/onebell/channels"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // those that are parallel wait for silence to end
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks is the exit status of what the tests left behind.
func leaks() int {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find()
		if err == nil {
			return 0
		}
		if time.Now().After(end) {
			fmt.Println(err)
			return 1
		}
	}
}

// patience is longer than a slow machine takes for anything.
const patience = 2 * time.Minute

const (
	testRecipient = "Ada.Lovelace@example.org"
	testUser      = "relay-user"
	testPassword  = "hunter2-secret"
)

// newChannel is a channel to that address whose timeouts are far away; mend may change the configuration.
func newChannel(t *testing.T, addr string, mend ...func(*Config)) *Channel {
	t.Helper()
	cfg := Config{
		Addr: addr, From: "Shop <shop@example.com>", TLS: TLSNone, Helo: "client.example.com",
		Timeout: 2 * patience, DotTimeout: patience, CommandTimeout: patience,
	}
	for _, f := range mend {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hasty makes silence end soon, and leaves a slow machine the time to come to it.
func hasty(cfg *Config) {
	cfg.Timeout, cfg.DotTimeout, cfg.CommandTimeout = 6*time.Second, 3*time.Second, 2*time.Second
}

// hastyAt is hasty where the peer falls silent.
func hastyAt(a act) func(*Config) {
	if a.end == silence {
		return hasty
	}
	return func(*Config) {}
}

func message(key, recipient, content string) channels.Message {
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	return channels.Message{EffectKey: key, Recipient: recipient, Content: json.RawMessage(content), OccurredAt: at, Date: at.Add(time.Minute)}
}

func testKey(i byte) string { return strings.Repeat(string('a'+rune(i%6)), 39) + "0" }

// attempt renders a mail and returns its first attempt.
func attempt(t *testing.T, c *Channel, m channels.Message) channels.Attempt {
	t.Helper()
	rendered, err := c.Render(m)
	if err != nil {
		t.Fatal(err)
	}
	return channels.Attempt{IntentID: "01900000-0000-7000-8000-000000000001", Generation: 1, EffectKey: m.EffectKey, Recipient: m.Recipient, Rendered: rendered}
}

func hello(t *testing.T, c *Channel) channels.Attempt {
	t.Helper()
	return attempt(t, c, message(testKey(0), testRecipient, `{"subject":"Hello","text":"Hello Ada\n.a line with a dot\n.\nend"}`))
}

// poll asks until the answer is yes.
func poll(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !yes(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func wantOutcome(t *testing.T, o channels.Outcome, result channels.Result, phase channels.Phase) {
	t.Helper()
	if o.Result() != result || o.Phase() != phase {
		t.Errorf("outcome %v at phase %q (code %s: %s), want %v at %q", o.Result(), o.Phase(), o.Code(), o.Message(), result, phase)
	}
}

// certificate makes a server certificate for 127.0.0.1 and the pool that trusts it.
func certificate(t testing.TB) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mx"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}
