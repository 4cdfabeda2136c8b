package smtp

import (
	"context"
	"crypto/tls"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	protocol "github.com/wneessen/go-mail/smtp"
)

// session is a connection that was greeted, encrypted as configured, and logged in. One goroutine uses it at a time.
type session struct {
	wire    *wire
	client  *protocol.Client
	utf8    bool  // SMTPUTF8 is offered
	maxSize int64 // the server's SIZE; 0: none given

	born, used time.Time
	mails      int
	dirty      bool        // a transaction was begun and refused; RSET before the next
	idle       *time.Timer // closes it while it stands in the pool
}

// cut closes the connection at once. Nothing is said before: net/textproto would end an open DATA with the dot, and the server
// would accept half a mail.
func (s *session) cut() { _ = s.wire.Conn.Close() }

// quit takes leave, within that time, of a server that waits for a command.
func (s *session) quit(until time.Time) {
	s.wire.step(until)
	_ = s.client.Quit()
	s.cut()
}

// connect opens a session. Every step ends before that time, or when ctx is done.
func (c *Channel) connect(ctx context.Context, before time.Time) (*session, *fault) {
	dialer := net.Dialer{Deadline: earlier(time.Now().Add(c.cfg.ConnectTimeout), before)}
	conn, err := dialer.DialContext(ctx, "tcp", c.cfg.Addr)
	if err != nil {
		return nil, &fault{stage: stageDial, err: err}
	}
	w := &wire{Conn: conn}
	stop := context.AfterFunc(ctx, w.kill)
	s, f := c.greet(w, before)
	if !stop() && f == nil {
		f = &fault{stage: stageAuth, err: ctx.Err()}
	}
	if f != nil {
		_ = conn.Close() // on errors the library leaves it open
		return nil, f
	}
	return s, nil
}

func (c *Channel) greet(w *wire, before time.Time) (*session, *fault) {
	s := &session{wire: w, born: time.Now()}
	step := func() { w.step(earlier(time.Now().Add(c.cfg.CommandTimeout), before)) }
	var conn net.Conn = w
	if step(); c.cfg.implicitTLS {
		secured := tls.Client(w, c.tlsConfig())
		if err := secured.Handshake(); err != nil {
			return nil, &fault{stage: stageTLS, err: err}
		}
		conn = secured
		step()
	}
	var err error
	if s.client, err = protocol.NewClient(conn, c.cfg.host); err != nil {
		return nil, newFault(stageGreeting, err)
	}
	step()
	if f := c.hello(s); f != nil {
		return nil, f
	}
	step()
	if f := c.encrypt(s); f != nil {
		return nil, f
	}
	step()
	if f := c.login(s); f != nil {
		return nil, f
	}
	s.utf8, _ = s.client.Extension("SMTPUTF8")
	_, size := s.client.Extension("SIZE")
	s.maxSize, _ = strconv.ParseInt(size, 10, 64)
	return s, nil
}

// hello introduces the client. The library falls back to HELO whatever became of EHLO; that is right only for a server that does not
// know EHLO, since with HELO it would seem to have neither TLS nor login.
func (c *Channel) hello(s *session) *fault {
	w := &witness{}
	s.client.ErrorHandlerRegistry.RegisterHandler(c.cfg.host, "ehlo", w)
	if err := s.client.Hello(c.cfg.Helo); err != nil {
		return newFault(stageHello, err)
	}
	if w.err == nil {
		return nil
	}
	if f := newFault(stageHello, w.err); f.reply.code/100 != 5 {
		return f
	}
	return nil
}

// witness keeps the error of a command that the library passes over.
type witness struct{ err error }

func (w *witness) HandleError(_, _ string, _ *textproto.Conn, err error) error {
	w.err = err
	return err
}

func (c *Channel) encrypt(s *session) *fault {
	if c.cfg.TLS == TLSNone || c.cfg.implicitTLS {
		return nil
	}
	if offered, _ := s.client.Extension("STARTTLS"); !offered {
		if c.cfg.TLS == TLSOpportunistic {
			return nil
		}
		return &fault{stage: stageTLS, err: errTLSPolicy}
	}
	if err := s.client.StartTLS(c.tlsConfig()); err != nil {
		return newFault(stageTLS, err)
	}
	return nil
}

func (c *Channel) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: c.cfg.ServerName, RootCAs: c.cfg.RootCAs, MinVersion: tls.VersionTLS12}
}

func (c *Channel) login(s *session) *fault {
	if c.cfg.Username == "" {
		return nil
	}
	_, offered := s.client.Extension("AUTH")
	_, encrypted := s.client.TLSConnectionState()
	mechanism := c.mechanism(strings.Fields(strings.ToUpper(offered)), encrypted || c.cfg.loopbackHost)
	if mechanism == nil {
		return &fault{stage: stageAuth, err: errMechanism}
	}
	if err := s.client.Auth(mechanism); err != nil {
		return newFault(stageAuth, err)
	}
	return nil
}

// mechanism picks the login, nil if none will do. Where others can listen, the password itself is never sent.
func (c *Channel) mechanism(offered []string, private bool) protocol.Auth {
	user, password := c.cfg.Username, string(c.cfg.Password)
	switch {
	case private && slices.Contains(offered, "PLAIN"):
		return protocol.PlainAuth("", user, password, c.cfg.host, false)
	case private && slices.Contains(offered, "LOGIN"):
		return protocol.LoginAuth(user, password, c.cfg.host, false)
	case slices.Contains(offered, "SCRAM-SHA-256"):
		return protocol.ScramSHA256Auth(user, password)
	case slices.Contains(offered, "CRAM-MD5"):
		return protocol.CRAMMD5Auth(user, password)
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
