package dispatch_test

import (
	"bytes"
	"testing"

	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

func TestStraightLine(t *testing.T) {
	r := newRig(t)
	hooks, mail, push := on(keyed), on(visible), on(replaceable)
	d := r.dispatcher(hooks.as("hooks"), mail.as("mail"), push.as("push"))
	for _, channel := range []string{"hooks", "mail", "push"} {
		r.publish(wire.RequestSubject("shop", channel), ask("receipt:1").bytes())
		i := r.reaches(identity("shop", channel, "receipt:1"), intents.Succeeded)
		if i.ProviderID != "p-1" || i.Attempts != 1 || i.Generation != 1 {
			t.Errorf("%s: %+v", channel, i)
		}
	}
	r.quiet()
	for name, c := range map[string]*scripted{"hooks": hooks, "mail": mail, "push": push} {
		if c.count() != 1 {
			t.Errorf("%s: %d sends, want 1", name, c.count())
		}
	}
	if a := hooks.all()[0]; !bytes.HasPrefix(a.Rendered, []byte(a.EffectKey+" ")) || a.Recipient != "ada@example.org" {
		t.Errorf("what was sent is not what was rendered: %q", a.Rendered)
	}
	if reasons := d.Ready(); len(reasons) != 0 {
		t.Errorf("not ready: %v", reasons)
	}
	if got := d.metric(t, "requests_total", "accepted"); got != 3 {
		t.Errorf("accepted: %v, want 3", got)
	}
}
