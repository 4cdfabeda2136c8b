package wire

import (
	"strings"
	"testing"

	"github.com/onebell/onebell/dedup"
)

func TestSubjectsAreReadAsTheyAreWritten(t *testing.T) {
	for subject, want := range map[string]Route{
		RequestSubject("shop", "mail"):              {KindRequest, "shop", "mail", ""},
		SubmitSubject("shop", "mail"):               {KindSubmit, "shop", "mail", ""},
		StatusSubject("shop"):                       {KindStatus, "shop", "", ""},
		CancelSubject("shop"):                       {KindCancel, "shop", "", ""},
		EventSubject("shop", "mail", WhatSucceeded): {KindEvent, "shop", "mail", WhatSucceeded},
		"onebell.request.a_b-9.push_2":              {KindRequest, "a_b-9", "push_2", ""},
	} {
		got, err := ParseSubject(subject)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", subject, got, err, want)
		}
	}
	for got, want := range map[string]string{
		RequestSubject("shop", "mail"):          "onebell.request.shop.mail",
		SubmitSubject("shop", "mail"):           "onebell.submit.shop.mail",
		StatusSubject("shop"):                   "onebell.status.shop",
		CancelSubject("shop"):                   "onebell.cancel.shop",
		EventSubject("shop", "mail", "unknown"): "onebell.event.shop.mail.unknown",
		CallerEvents("shop", ""):                "onebell.event.shop.*.*",
		CallerEvents("shop", "mail"):            "onebell.event.shop.mail.*",
	} {
		if got != want {
			t.Errorf("subject %s, want %s", got, want)
		}
	}
}

func TestMalformedSubjects(t *testing.T) {
	for subject, tc := range map[string]struct {
		code string
		kept Route // what can still be shown
	}{
		"":                                {CodeSubjectInvalid, Route{}},
		"onebell":                         {CodeSubjectInvalid, Route{}},
		"other.request.shop.mail":         {CodeSubjectInvalid, Route{}},
		"onebell.wish.shop.mail":          {CodeSubjectInvalid, Route{}},
		"onebell.request":                 {dedup.CodeCallerInvalid, Route{Kind: KindRequest}},
		"onebell.request.shop":            {dedup.CodeChannelInvalid, Route{Kind: KindRequest, Caller: "shop"}},
		"onebell.request.Shop.mail":       {dedup.CodeCallerInvalid, Route{Kind: KindRequest}},
		"onebell.request.shop.Mail":       {dedup.CodeChannelInvalid, Route{Kind: KindRequest, Caller: "shop"}},
		"onebell.request.shop.mail.extra": {CodeSubjectInvalid, Route{Kind: KindRequest, Caller: "shop", Channel: "mail"}},
		"onebell.request.shop..mail":      {dedup.CodeChannelInvalid, Route{Kind: KindRequest, Caller: "shop"}},
		"onebell.status.shop.mail":        {CodeSubjectInvalid, Route{Kind: KindStatus, Caller: "shop"}},
		"onebell.event.shop.mail":         {CodeSubjectInvalid, Route{Kind: KindEvent, Caller: "shop", Channel: "mail"}},
	} {
		got, err := ParseSubject(subject)
		if err == nil || got != tc.kept {
			t.Errorf("%q: %+v, %v; want %+v and an error", subject, got, err, tc.kept)
			continue
		}
		if r := refusal(t, err); r.Code != tc.code {
			t.Errorf("%q: %v; want code %s", subject, r, tc.code)
		}
	}
}

func TestForbiddenHeaders(t *testing.T) {
	for _, name := range []string{
		"Nats-Rollup", "nats-rollup", "NATS-ROLLUP", "Nats-Schedule", "Nats-Schedule-Target", "Nats-Schedule-TTL", "Nats-Scheduler",
		"nats-schedule-next", "Nats-TTL", "nats-ttl", " Nats-TTL",
	} {
		err := CheckHeaders(map[string][]string{"Traceparent": {"x"}, name: {"CANARY"}})
		if err == nil {
			t.Errorf("%s passes", name)
			continue
		}
		if r := refusal(t, err); r.Code != CodeHeaderForbidden || strings.Contains(r.Error(), "CANARY") {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, h := range []map[string][]string{nil, {}, {"traceparent": {"x"}, "Nats-Msg-Id": {"x"}, "X-Nats-TTL": {"x"}}} {
		if err := CheckHeaders(h); err != nil {
			t.Errorf("%v: %v", h, err)
		}
	}
}

// W4g: the trace is read in any spelling, and nothing hangs on it.
func TestW4Traceparent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, name := range []string{"traceparent", "Traceparent", "TRACEPARENT"} {
		if got := Traceparent(map[string][]string{name: {good}}); got != good {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, bad := range []string{
		"", "x", good[:54], good + "0", good + "-00", strings.ToUpper(good), "ff" + good[2:],
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01",
	} {
		if got := Traceparent(map[string][]string{"traceparent": {bad}}); got != "" {
			t.Errorf("%q is taken as %q", bad, got)
		}
	}
	if got := Traceparent(map[string][]string{"traceparent": {"01" + good[2:] + "-later"}}); got != "01"+good[2:] {
		t.Errorf("a later version is read as %q", got)
	}
	c := Carrier{"TraceParent": {"old", "older"}, "empty": {}}
	c.Set("traceparent", good)
	if len(c.Keys()) != 2 || c.Get("TRACEPARENT") != good || c.Get("empty") != "" || c.Get("none") != "" {
		t.Errorf("carrier %v", c)
	}
}
