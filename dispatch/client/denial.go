package client

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// denials brings permission violations back to the calls that they belong to. NATS reports them on the connection's error handler alone,
// while the call waits for an answer that never comes.
type denials struct {
	nc    *nats.Conn
	inbox string // prefix of the connection's inboxes

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	// A denied inbox stays denied until the connection is made anew: the server then says so again, if it still is.
	denied   *PermissionError
	deniedAt uint64 // reconnects at that time
}

type waiter struct {
	quoted string // the subject as the server quotes it; without closing quote, a prefix
	name   string
	cancel context.CancelCauseFunc
}

// attach puts the denials of nc before whatever error handler it has.
func attach(nc *nats.Conn) *denials {
	inbox := nc.NewInbox()
	d := &denials{nc: nc, inbox: inbox[:strings.LastIndexByte(inbox, '.')+1], waiting: map[*waiter]struct{}{}}
	next := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		d.note(err)
		if next != nil {
			next(nc, sub, err)
		}
	})
	return d
}

// watch ends the returned context with a *PermissionError as its cause when the server denies the subject, or with prefix
// set any that begins with it. The caller must call done.
func (d *denials) watch(ctx context.Context, subject string, prefix bool) (watched context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &waiter{quoted: `"` + subject + `"`, name: subject, cancel: cancel}
	if prefix {
		w.quoted = `"` + subject
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[w] = struct{}{}
	if d.denied != nil && d.deniedAt == d.nc.Stats().Reconnects {
		cancel(d.denied)
	}
	return ctx, func() {
		d.mu.Lock()
		delete(d.waiting, w)
		d.mu.Unlock()
		cancel(nil)
	}
}

// note looks for the subject in the error's text, because nats.go keeps it nowhere else (its own processTransientError does the
// same).
func (d *denials) note(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	text := err.Error()
	reconnects := d.nc.Stats().Reconnects
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.Contains(text, `Subscription to "`+d.inbox) {
		d.denied, d.deniedAt = &PermissionError{Subject: d.inbox + ">", Inbox: true}, reconnects
	}
	for w := range d.waiting {
		switch {
		case d.denied != nil && d.deniedAt == reconnects:
			w.cancel(d.denied)
		case strings.Contains(text, w.quoted):
			w.cancel(&PermissionError{Subject: w.name})
		}
	}
}
