package main

import (
	"io"
	"net"
	"net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// mailPeer is a mail server. It has no memory of what it took, as SMTP has none.
type mailPeer struct {
	addr    string
	server  *smtp.Server
	serving sync.WaitGroup
}

func newMailPeer(p *peers) (*mailPeer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mailPeer{addr: l.Addr().String()}
	m.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailCall{p: p, conn: c.Conn()}, nil
	}))
	m.server.Domain, m.server.MaxMessageBytes, m.server.MaxRecipients = "localhost", 32<<20, 100
	m.server.ReadTimeout, m.server.WriteTimeout, m.server.EnableSMTPUTF8 = 5*time.Minute, time.Minute, true
	m.server.ErrorLog = silent{}
	m.serving.Go(func() { _ = m.server.Serve(l) }) // ends when closed
	return m, nil
}

func (m *mailPeer) close() error {
	err := m.server.Close()
	m.serving.Wait()
	return err
}

// silent hears nothing of the connections that break: they are broken on purpose.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// mailCall is one connection of a sender.
type mailCall struct {
	p     *peers
	conn  net.Conn
	begun time.Time
	to    string
	fate  mishap
}

func (c *mailCall) Reset()                                   { c.to, c.fate = "", "" }
func (c *mailCall) Logout() error                            { return nil }
func (c *mailCall) Mail(_ string, _ *smtp.MailOptions) error { c.begun = time.Now(); return nil }

// Rcpt learns whom the mail is for, and with that its fate. What goes wrong here goes wrong before anything can be applied.
func (c *mailCall) Rcpt(to string, _ *smtp.RcptOptions) error {
	c.to, c.fate = to, c.p.fate(mailChannel, to)
	name, _, _ := strings.Cut(to, "@")
	switch {
	case strings.HasSuffix(name, goneMark):
		c.p.ledger.enter(c.decided(effect{answer: answerRefused, unread: true}))
		return smtpReply(550, 5, "no mailbox for <"+to+">")
	case c.fate == cutUnread:
		c.p.ledger.count(c.fate)
		return c.conn.Close()
	case c.fate == halfOpen:
		c.p.ledger.count(c.fate)
		c.p.holdLate(to)
		return c.conn.Close()
	case c.fate == vagueUndone: // in mail a refusal for now is never vague
		c.p.ledger.count(c.fate)
		return smtpReply(450, 4, "the mailbox of <"+to+"> is busy")
	}
	return nil
}

// Data takes the mail. It exists once its final dot was read.
func (c *mailCall) Data(r io.Reader) error {
	if c.fate == cutBefore { // the dot is not read: the mail is not taken, whatever stands in the socket's buffers
		c.p.ledger.count(c.fate)
		c.p.ledger.enter(c.decided(effect{answer: answerNone, unread: true}))
		return c.conn.Close()
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err // the sender broke off: nothing happened
	}
	e := effect{body: hash(raw)}
	e.of, e.variant, _ = readMark(raw)
	if m, err := mail.ReadMessage(strings.NewReader(string(raw))); err == nil {
		e.key = m.Header.Get("Message-Id")
	}
	return c.finish(e)
}

// finish applies the mail, or does not, and answers.
func (c *mailCall) finish(e effect) error {
	if c.fate != "" {
		c.p.ledger.count(c.fate)
	}
	switch c.fate {
	case throttled:
		e.answer = answerLater
		c.p.ledger.enter(c.decided(e))
		return smtpReply(451, 4, "try again later, <"+c.to+">")
	case slowly:
		c.p.holdSlow(c.to)
	case lateSuccess:
		c.p.holdLate(c.to)
	}
	c.p.work(c.to)
	e.applied, e.answer = true, answerAccepted
	if c.fate == lateSuccess {
		e.answer = answerLate
	}
	var words string
	switch c.fate {
	case replyHalf, bodyCut:
		e.answer, words = answerNone, "25"
	case replyGarbage, wrongType:
		e.answer, words = answerNone, "HTTP/1.1 200 OK\r\n"
	case replyLost, vagueDone:
		e.answer = answerNone
	}
	c.p.ledger.enter(c.decided(e))
	if e.answer != answerNone {
		return nil
	}
	_, _ = io.WriteString(c.conn, words) // the sender may be gone
	return c.conn.Close()
}

// decided completes the entry for the ledger.
func (c *mailCall) decided(e effect) effect {
	e.channel, e.to, e.begun, e.at, e.mishap = mailChannel, hash([]byte(c.to)), c.begun, time.Now(), c.fate
	return e
}

func smtpReply(code, class int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{class, 0, 0}, Message: text}
}
