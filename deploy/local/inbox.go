package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// InboxOptions says where an Inbox listens on 127.0.0.1; a port of 0 takes a free one.
type InboxOptions struct {
	SMTPPort int
	HTTPPort int
	// Script decides what becomes of each mail; nil takes all.
	Script Script
	// Log hears what goes wrong with a connection; nil is silent.
	Log *slog.Logger
}

// Inbox is a mail server that keeps what it gets and shows it over HTTP: a page at /, JSON at /messages, one message as
// it came at /messages/{id}/raw. Its methods may be called concurrently.
type Inbox struct {
	script   Script
	smtp     *smtp.Server
	http     *http.Server
	mails    net.Listener
	httpAddr string
	serving  sync.WaitGroup

	deciding sync.Mutex // held while the script runs, which may look at what has come
	arrivals int        // under deciding

	mu      sync.Mutex
	kept    []Mail
	changed chan struct{} // closed and replaced at each arrival
}

// NewInbox starts an Inbox.
func NewInbox(opts InboxOptions) (*Inbox, error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	mails, err := net.Listen("tcp", address(opts.SMTPPort))
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	pages, err := net.Listen("tcp", address(opts.HTTPPort))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inbox: %w", err), mails.Close())
	}
	in := &Inbox{script: opts.Script, mails: mails, httpAddr: pages.Addr().String(), changed: make(chan struct{})}
	in.smtp = smtp.NewServer(smtp.BackendFunc(in.session))
	in.smtp.Domain, in.smtp.MaxMessageBytes, in.smtp.MaxRecipients = "localhost", 32<<20, 100
	in.smtp.ReadTimeout, in.smtp.WriteTimeout, in.smtp.EnableSMTPUTF8 = 5*time.Minute, time.Minute, true
	in.smtp.ErrorLog = smtpLog{log}
	in.http = &http.Server{Handler: hardened(in.routes()), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	in.serving.Go(func() { _ = in.smtp.Serve(mails) }) // ends when closed
	in.serving.Go(func() { _ = in.http.Serve(pages) })
	return in, nil
}

// SMTPAddr is host and port for senders: no TLS, no AUTH.
func (in *Inbox) SMTPAddr() string { return in.mails.Addr().String() }

// URL is the page for people.
func (in *Inbox) URL() string { return "http://" + in.httpAddr + "/" }

// Close stops listening and breaks what is open. Safe to call twice.
func (in *Inbox) Close() error {
	// The server closes the listeners that it has begun to serve, which may be none yet; all may be closed already.
	err := errors.Join(unlessClosed(in.smtp.Close()), unlessClosed(in.mails.Close()), in.http.Close())
	in.serving.Wait()
	return err
}

func unlessClosed(err error) error {
	if errors.Is(err, smtp.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Mails is what has arrived, oldest first: mails whose reply was lost included, refused and dropped ones not.
func (in *Inbox) Mails() []Mail {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.kept)
}

// Wait returns what has arrived as soon as that is n mails, or the context's error.
func (in *Inbox) Wait(ctx context.Context, n int) ([]Mail, error) {
	for {
		in.mu.Lock()
		kept, changed := slices.Clone(in.kept), in.changed
		in.mu.Unlock()
		if len(kept) >= n {
			return kept, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return kept, fmt.Errorf("%d of %d mails arrived: %w", len(kept), n, ctx.Err())
		}
	}
}

func (in *Inbox) decide(to string) (int, Fate) {
	in.deciding.Lock()
	defer in.deciding.Unlock()
	in.arrivals++
	if in.script == nil {
		return in.arrivals, Take()
	}
	return in.arrivals, in.script(Arrival{N: in.arrivals, To: to})
}

func (in *Inbox) add(m Mail) {
	m.parse()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.kept = keep(in.kept, m)
	close(in.changed)
	in.changed = make(chan struct{})
}

func (in *Inbox) session(c *smtp.Conn) (smtp.Session, error) {
	return &mailSession{in: in, conn: c.Conn()}, nil
}

// mailSession is one connection of a sender.
type mailSession struct {
	in   *Inbox
	conn net.Conn
	from string
	to   []string
}

func (s *mailSession) Reset()                                      { s.from, s.to = "", nil }
func (s *mailSession) Logout() error                               { return nil }
func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error   { s.to = append(s.to, to); return nil }

// Data decides the mail's fate before it is read: a dropped one must not see its final dot.
func (s *mailSession) Data(r io.Reader) error {
	id, fate := s.in.decide(s.to[0])
	if fate.kind == drop {
		return s.conn.Close()
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if fate.kind == answer {
		return &smtp.SMTPError{Code: fate.code, EnhancedCode: smtp.EnhancedCode{fate.code / 100, 0, 0}, Message: fate.text}
	}
	s.in.add(Mail{ID: id, At: time.Now().UTC(), From: s.from, To: s.to, Raw: raw})
	if fate.kind == loseReply {
		return s.conn.Close()
	}
	return nil
}

type smtpLog struct{ log *slog.Logger }

func (l smtpLog) Printf(format string, v ...any) { l.log.Debug("inbox: " + fmt.Sprintf(format, v...)) }
func (l smtpLog) Println(v ...any)               { l.log.Debug("inbox: " + fmt.Sprint(v...)) }

func (in *Inbox) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { page(w, inboxPage, in.Mails()) })
	mux.HandleFunc("GET /messages", func(w http.ResponseWriter, _ *http.Request) { list(w, in.Mails()) })
	mux.HandleFunc("GET /messages/{id}/raw", in.raw)
	return mux
}

func (in *Inbox) raw(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	mails := in.Mails()
	i := slices.IndexFunc(mails, func(m Mail) bool { return m.ID == id })
	if err != nil || i < 0 {
		http.Error(w, "no such message", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(mails[i].Raw) // the reader may go away
}

// list answers JSON, never null.
func list[T any](w http.ResponseWriter, items []T) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(append([]T{}, items...))
}

// page shows the newest first.
func page[T any](w http.ResponseWriter, t *template.Template, items []T) {
	slices.Reverse(items)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = t.Execute(w, items)
}
