// Package fcm sends push notifications through Firebase Cloud Messaging (HTTP v1) to Android, iOS and web apps.
//
// # Credentials
//
// In the Firebase console, Project settings, Service accounts, "Generate new private key" makes the file that CREDENTIALS_FILE
// names; a service account of one's own needs the role roles/firebasecloudmessaging.admin. PROJECT_ID is the project whose
// apps are reached, the file's own when it is unset. For iOS the APNs key, for the web the VAPID key pair is uploaded in
// Project settings, Cloud Messaging. The file is read again whenever an access token is fetched (about once an hour, and
// after a refused one), so a key is rotated by replacing the file.
//
// # What is promised
//
// FCM knows no key that would keep a repeat away (https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages),
// so the channel is replaceable: every request carries the collapse key as android.notification.tag, as apns-collapse-id and as
// the Topic and tag of web push, and a repeat or a newer revision replaces the notification that is shown. It may alert again.
// This holds for notifications that the system shows; an app that draws its own from the data sees the tag and has to use
// it. On the web, Topic replaces only what is not delivered yet, and tag what is shown.
//
// android.collapse_key is set for a producer's collapse_id alone. FCM keeps four such keys per device and app, and drops
// messages when there are more (https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types),
// so a collapse_id should name a class ("scores"), never one order. Without a key, that page says, the app's package name is the
// default; it does not say whether notifications that a device has not received yet then replace each other.
//
// One Send is one request on the wire. expires_at becomes the time to live (four weeks at most), computed anew for each
// attempt; priority high and low become those of each platform, normal leaves FCM's own, which for notifications is high. All
// else is sent as it was rendered at admission, byte for byte.
//
// # What an operator sees
//
//   - rejected, UNREGISTERED: the app is gone from that device; the event says dead_recipient, and the token should be deleted.
//   - rejected, INVALID_ARGUMENT: this message or a malformed token; the message names the field where FCM does.
//   - the channel paused: credentials (invalid_grant: revoked key or wrong clock; UNAUTHENTICATED, PERMISSION_DENIED: role or
//     API), THIRD_PARTY_AUTH_ERROR (the APNs or VAPID key in the Firebase console), NOT_FOUND (PROJECT_ID or ENDPOINT),
//     SENDER_ID_MISMATCH before any token of the project worked (PROJECT_ID or CREDENTIALS_FILE of another project; afterwards it
//     is that one token's fault, and its request is rejected). No attempt is used up, and `onebell doctor` sends a dry run.
//   - throttled, QUOTA_EXCEEDED: FCM's quota; waited for as FCM asks, a minute where it does not.
//   - unknown, UNAVAILABLE, INTERNAL, timeout, connection-lost: FCM never says that nothing was sent; by ON_UNKNOWN it is sent
//     again with the same collapse key, not earlier than ten seconds later.
package fcm

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/messaging"
	"google.golang.org/api/option"

	"github.com/onebell/onebell/channels"
)

// Config is one FCM channel. Errors of New name the variables ONEBELL_CHANNEL_<NAME>_….
type Config struct {
	CredentialsFile string         // path of a service account's key in JSON; required
	ProjectID       string         // "": the credentials file's
	Endpoint        string         // "": https://fcm.googleapis.com; plain http for loopback addresses alone
	Timeout         time.Duration  // of one attempt, fetching an access token included; required
	RootCAs         *x509.CertPool // nil: the system's
}

// Channel sends to the apps of one Firebase project. It is safe for concurrent use; Close it at the end.
type Channel struct {
	contract channels.Contract
	engine   *channels.HTTPEngine
	tokens   *tokens
	client   *messaging.Client
	proven   atomic.Bool // FCM has taken a message to a token of this project
}

var (
	_ channels.Channel = (*Channel)(nil)
	_ channels.Prober  = (*Channel)(nil)
)

const (
	googleEndpoint = "https://fcm.googleapis.com"
	// keepIdle is how long a connection is kept: a TLS handshake for each push would cost more than an unknown outcome now
	// and then, which is resent with the same collapse key.
	keepIdle = 30 * time.Second
)

var projectID = regexp.MustCompile(`^[a-z][a-z0-9.:-]{2,98}[a-z0-9]$`)

// New reads the credentials and returns a channel; it connects to nothing. Its errors say which variable to mend and show no
// secret.
func New(c Config) (*Channel, error) {
	if c.Endpoint == "" {
		c.Endpoint = googleEndpoint
	}
	c.Endpoint = strings.TrimSuffix(c.Endpoint, "/")
	if u, err := url.Parse(c.Endpoint); err != nil || !trustworthy(u) || u.Path != "" || u.RawQuery != "" {
		return nil, errors.New("ENDPOINT must be an https address without a path, as in " + googleEndpoint + ", or http on a loopback address")
	}
	if c.CredentialsFile == "" {
		return nil, errors.New("CREDENTIALS_FILE is required; name a service account's key file, as the Firebase console makes it")
	}
	account, err := readAccount(c.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("CREDENTIALS_FILE %w", err)
	}
	if c.ProjectID == "" {
		c.ProjectID = account.Project
	}
	if !projectID.MatchString(c.ProjectID) {
		return nil, errors.New("PROJECT_ID is required where the credentials file has none; it is the Firebase project's id, as in my-app-1a2b3")
	}
	ch := &Channel{contract: contractOf(c, account)}
	// Both addresses are the operator's own, and Google's can be reached through private addresses (Private Service Connect),
	// so no address is out of bounds.
	ch.engine, err = channels.NewHTTPEngine(channels.HTTPOptions{
		Timeout: c.Timeout, IdleTimeout: keepIdle, RootCAs: c.RootCAs,
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	})
	if err != nil {
		return nil, err
	}
	ch.tokens = newTokens(c.CredentialsFile, ch.engine)
	ch.client, err = newClient(c)
	return ch, err
}

// newClient returns the SDK's client with our transport under it, in place of Google's own with its hidden retries for tokens.
func newClient(c Config) (*messaging.Client, error) {
	app, err := firebase.NewApp(context.Background(), &firebase.Config{ProjectID: c.ProjectID},
		option.WithHTTPClient(&http.Client{Transport: byContext{}}), option.WithEndpoint(c.Endpoint+"/v1"))
	if err != nil {
		return nil, errors.New("the Firebase SDK does not take the settings (PROJECT_ID, ENDPOINT)")
	}
	client, err := app.Messaging(context.Background())
	if err != nil {
		return nil, errors.New("the Firebase SDK does not take the settings (PROJECT_ID, ENDPOINT)")
	}
	return client, nil
}

// trustworthy reports whether a bearer token may be sent there.
func trustworthy(u *url.URL) bool {
	if u.User != nil || u.Fragment != "" || u.Hostname() == "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

// maxTTL is FCM's, https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#AndroidConfig.
const maxTTL = 28 * 24 * time.Hour

func contractOf(c Config, a account) channels.Contract {
	sum := sha256.Sum256(fmt.Appendf(nil, "fcm key scope v1\n%s\n%s\n%s\n%s", c.Endpoint, c.ProjectID, a.Email, a.KeyID))
	return channels.Contract{
		Guarantee: channels.Replaceable, KeyFormat: "uuid", KeyScope: hex.EncodeToString(sum[:8]), LookUp: channels.LookUpNone,
		CollapseField: "android.notification.tag, apns-collapse-id, webpush Topic", CollapseFormat: "base64url32",
		CollapseScope: channels.CollapseShown, AttemptTimeout: c.Timeout, MaxContentBytes: maxContent, MaxTTL: maxTTL,
		DeadRecipientCode: []string{"UNREGISTERED"}, MisconfiguredCode: misconfiguredCodes(),
	}
}

// Contract implements channels.Channel.
func (c *Channel) Contract() channels.Contract { return c.contract }

// Close closes idle connections.
func (c *Channel) Close() error { return c.engine.Close() }

// Validate implements channels.Channel. The recipient is a registration token, or topic: and a topic's name.
func (c *Channel) Validate(recipient string, raw json.RawMessage) (string, error) {
	to, err := parseTarget(recipient)
	if err != nil {
		return "", err
	}
	_, err = parseContent(raw, to)
	return recipient, err
}

// Render implements channels.Channel. Its result is the body of the request.
func (c *Channel) Render(m channels.Message) ([]byte, error) { return render(m) }

// Send implements channels.Channel.
func (c *Channel) Send(ctx context.Context, a channels.Attempt) channels.Outcome {
	if ctx.Err() != nil {
		return channels.OutcomeNotSent(channels.PhaseNone, channels.HTTPCanceled, "the attempt was over before it began")
	}
	ctx, cancel := context.WithTimeout(ctx, c.contract.AttemptTimeout)
	defer cancel()
	body, message, err := prepare(a, time.Now())
	if err != nil {
		return channels.OutcomeRefusedAt(channels.PhaseNone, "rendered-invalid", "the stored message cannot be read")
	}
	access, failed := c.tokens.get(ctx)
	if failed != nil {
		return *failed
	}
	s := &shot{engine: c.engine, ctx: ctx, bearer: access, body: body, secrets: []string{a.Recipient, message.Token, message.Topic, access}}
	_, _ = c.client.Send(s.context(), message) // the exchange says more, and more exactly, than the SDK's error
	if !s.fired {
		return channels.OutcomeRefusedAt(channels.PhaseNone, "sdk-refused", "the Firebase SDK does not send this message; check the lengths and forms of its members")
	}
	o := classify(s.exchange, s.secrets, c.proven.Load())
	switch {
	case s.exchange.Status == http.StatusUnauthorized:
		c.tokens.drop(access)
	case o.Result() == channels.Accepted && message.Token != "":
		c.proven.Store(true)
	}
	return o
}

// probeTopic is whom the dry run is addressed to; nobody need subscribe to it.
const probeTopic = "onebell-doctor"

// Probe implements channels.Prober: it fetches an access token and has FCM validate a message without sending it
// (validate_only, https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send).
func (c *Channel) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.contract.AttemptTimeout)
	defer cancel()
	access, failed := c.tokens.get(ctx)
	if failed != nil {
		return fmt.Errorf("%s: %s", failed.Code(), failed.Message())
	}
	s := &shot{engine: c.engine, ctx: ctx, bearer: access, secrets: []string{access}}
	_, _ = c.client.SendDryRun(s.context(), &messaging.Message{Topic: probeTopic, Notification: &messaging.Notification{Title: probeTopic}}) // as in Send
	o := classify(s.exchange, s.secrets, false)
	if o.Result() != channels.Accepted || o.ProviderID() == "" {
		c.tokens.drop(access)
		return fmt.Errorf("FCM does not take a dry run: %s %s: %s", o.Result(), o.Code(), o.Message())
	}
	return nil
}
