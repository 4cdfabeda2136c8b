package main

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onebell/onebell/intents"
)

// held is a peer whose first exchange stands still at a stage until it is let go; later ones go through.
type held struct {
	arrived, gone chan struct{}
}

func hold(p *books, at stage) held {
	h := held{make(chan struct{}), make(chan struct{})}
	var later atomic.Bool
	p.setHook(func(s stage) bool {
		if s == at && !later.Swap(true) {
			close(h.arrived)
			<-h.gone
		}
		return true
	})
	return h
}

// pausedTimeout makes leases that are over soon, by the clock: one that was stopped has to find its own time over. What has to be held
// together is held within this time.
const pausedTimeout = 6 * time.Second

// state is the intent's present state, "" while nobody can say.
func (w *town) state(channel, key string) intents.State {
	s, err := w.status(channel, key)
	if err != nil {
		return ""
	}
	return intents.State(s.State)
}

// A dispatcher is stopped in the middle of a mail, before the dot, until its lease is over and longer. Continued, it must not
// finish what it began; what it knows ("not sent") settles the UNKNOWN that the takeover left, and the mail goes out once.
func TestPauseBeforeTheDotPastTheLease(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.timeout = pausedTimeout
	first := w.serve()
	h := hold(&w.mail.books, stageOffered)
	w.publish("mail", "1")
	<-h.arrived
	first.signal(syscall.SIGSTOP)
	w.serve()
	w.becomes("mail", "1", intents.UnknownState)
	close(h.gone)
	first.signal(syscall.SIGCONT)
	eventually(t, "the late finisher's word settles the intent and the mail is sent", func() bool {
		return w.state("mail", "1") == intents.Succeeded
	})
	if got := len(w.mail.all()); got != 1 {
		t.Errorf("the mail server took %d mails, want 1", got)
	}
	if got := query[string](w, `select result from evidence where source = 'late-finisher'`); len(got) != 1 || got[0] != "not-sent" {
		t.Errorf("evidence on record: %q, want one late finisher who did not send", got)
	}
	w.holds()
}

// A dispatcher is stopped after the effect and before it reads the reply. Others settle meanwhile; continued, it overwrites nothing.
func TestPauseAfterTheEffectPastTheLease(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.timeout = pausedTimeout
	first := w.serve()
	mail, keyed := hold(&w.mail.books, stageTaken), hold(&w.keyed.books, stageTaken)
	w.publish("mail", "1")
	w.publish("keyed", "1")
	<-mail.arrived
	<-keyed.arrived
	first.signal(syscall.SIGSTOP)
	w.serve()
	w.becomes("mail", "1", intents.UnknownState)
	w.becomes("keyed", "1", intents.Succeeded)
	settled := query[int](w, `select generation from intents where channel = 'keyed'`)[0]
	close(mail.gone)
	close(keyed.gone)
	first.signal(syscall.SIGCONT)
	eventually(t, "both late finishers gave evidence", func() bool {
		return w.count(`select count(*) from evidence where source = 'late-finisher'`) == 2
	})
	if s := w.state("mail", "1"); s != intents.UnknownState && s != intents.Succeeded {
		t.Errorf("the mail is %s; the late finisher either knows that it was accepted, or nothing", s)
	}
	if got := len(w.mail.all()); got != 1 {
		t.Errorf("the mail server took %d mails, want 1", got)
	}
	if s, g := w.state("keyed", "1"), query[int](w, `select generation from intents where channel = 'keyed'`)[0]; s != intents.Succeeded || g != settled {
		t.Errorf("the late finisher changed a settled intent: %s, generation %d; it was succeeded, generation %d", s, g, settled)
	}
	if got := w.keyed.applied(); got != 1 {
		t.Errorf("the keyed receiver applied %d calls, want 1", got)
	}
	w.holds()
}
