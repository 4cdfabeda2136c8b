package intenttest

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
)

// testimony: what a late finisher says settles UNKNOWN where it is definite, and only where it is the whole truth.
func testimony(d *driver) {
	for name, test := range map[string]struct {
		says func(intents.Claim, string) intents.Settlement
		park bool // else it waits for a resend, in doubt
		want intents.State
	}{
		"e:accepted":         {Succeeded, true, intents.Succeeded},
		"e:accepted-pending": {Succeeded, false, intents.Succeeded},
		"e:refused":          {Rejected, true, intents.Rejected},
		"e:not-sent":         {func(c intents.Claim, o string) intents.Settlement { return NotSent(c, o, 0) }, true, intents.Pending},
		"e:refused-pending":  {Rejected, false, intents.Pending},
		"e:unknown":          {Parked, true, intents.UnknownState},
	} {
		d.admit(Ask(name, 0, Urgency(intents.High)))
		late := d.claim(1)[0]
		d.s.Pass(d.t, Lease)
		d.settle(LeaseOver(d.takeOver(Them)[0], Them, test.park))
		before := d.find(late.Identity).State
		got := d.witness(test.says(late, Me))
		if got.State != test.want || got.Fenced != (before == test.want) {
			d.t.Errorf("%s: answered %+v, want %s", name, got, test.want)
		}
		if again := d.witness(test.says(late, Me)); again != got {
			d.t.Errorf("%s: again %+v, at first %+v", name, again, got)
		}
		i := d.want(name, 0, test.want)
		if i.Doubt != (test.want == before) || (i.State == intents.Succeeded && i.ProviderID != "provider-7") {
			d.t.Errorf("%s: %+v", name, i)
		}
		if i.State == intents.Pending {
			d.settle(Succeeded(d.claim(1)[0], Me))
		}
	}
	// An earlier attempt is in doubt as well: "not sent" says nothing of that one.
	d.admit(Ask("e:two", 0))
	d.settle(Resent(d.claimOne(), Me))
	late := d.claimOne()
	d.s.Pass(d.t, Lease)
	d.settle(LeaseOver(d.takeOver(Them)[0], Them, true))
	if got := d.witness(NotSent(late, Me, 0)); !got.Fenced || got.State != intents.UnknownState {
		d.t.Errorf("two in doubt: %+v", got)
	}
	if got := d.witness(intents.Settlement{ID: uuid.New(), Generation: 1, Owner: Me}); !got.Missing {
		d.t.Errorf("an intent that is none: %+v", got)
	}
}

// testimonyDuringTakeover: until a takeover is settled nobody sends, and what a late finisher says then settles the intent.
func testimonyDuringTakeover(d *driver) {
	for name, test := range map[string]struct {
		says func(intents.Claim, string) intents.Settlement
		want intents.State
	}{
		"t:accepted": {Succeeded, intents.Succeeded},
		"t:refused":  {Rejected, intents.Rejected},
		"t:not-sent": {func(c intents.Claim, o string) intents.Settlement { return NotSent(c, o, time.Hour) }, intents.Pending},
		"t:unknown":  {Parked, intents.Sending},
	} {
		for _, patrol := range []string{Them, Me} { // another process, or the late finisher's own
			key := name + ":" + patrol[5:6]
			d.admit(Ask(key, 0))
			late := d.claimOne()
			d.s.Pass(d.t, Lease)
			taken := d.takeOver(patrol)
			if got := d.witness(test.says(late, Me)); got.State != test.want || got.Fenced != (test.want == intents.Sending) {
				d.t.Errorf("%s: answered %+v, want %s", key, got, test.want)
			}
			i := d.want(key, 0, test.want)
			if settled := test.want != intents.Sending; i.Doubt == settled || (i.Owner == "") != settled || i.LeaseUntil.IsZero() != settled {
				d.t.Errorf("%s: %+v", key, i)
			}
			got, want := d.settle(LeaseOver(taken[0], patrol, true)), intents.UnknownState
			if test.want != intents.Sending {
				want = test.want
			}
			if got.Fenced != (test.want != intents.Sending) || got.State != want {
				d.t.Errorf("%s: the takeover's own settlement: %+v, want %s", key, got, want)
			}
			if i.State == intents.Pending {
				d.s.Pass(d.t, Lease)
				d.settle(Succeeded(d.claimOne(), Me))
			}
		}
	}
}

// testimonyDuringResend: what was accepted, as is heard while it is being sent again, is not sent a third time and not unknown.
func testimonyDuringResend(d *driver) {
	for name, end := range map[string]func(intents.Claim, string) intents.Settlement{
		"r:parked": Parked, "r:resent": Resent, "r:handed-back": HandedBack,
		"r:not-sent": func(c intents.Claim, o string) intents.Settlement { return NotSent(c, o, 0) },
		"r:over":     nil,
	} {
		d.admit(Ask(name, 0))
		late := d.claimOne()
		d.s.Pass(d.t, Lease)
		d.settle(LeaseOver(d.takeOver(Them)[0], Them, false))
		again := d.claimOne()
		if got := d.witness(Succeeded(late, Me)); !got.Fenced || got.State != intents.Sending {
			d.t.Errorf("%s: %+v while it is sent again", name, got)
		}
		if end == nil {
			d.s.Pass(d.t, Lease)
			d.settle(LeaseOver(d.takeOver(Them)[0], Them, false))
		} else if got := d.settle(end(again, Me)); got.Fenced || got.State != intents.Succeeded {
			d.t.Errorf("%s: %+v", name, got)
		}
		if i := d.want(name, 0, intents.Succeeded); i.ProviderID != "provider-7" || i.Doubt || i.PossibleDuplicates != 1 {
			d.t.Errorf("%s: %+v", name, i)
		}
	}
}
