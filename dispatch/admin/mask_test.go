package admin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onebell/onebell/intents"
)

func TestRecipientsAreMaskedByKind(t *testing.T) {
	for recipient, want := range map[string]string{
		"":                                "",
		"ada@example.org":                 "a***@e***.org",
		"ülf@xn--bcher-kva.example":       "ü***@x***.example",
		"a@localhost":                     "a***@l***",
		"a@[127.0.0.1]":                   "a***@[***",
		"https://hooks.example.com/t/s3c": "https://h***.com/***",
		"https://10.1.2.3:8443/x?tok=1":   "https://1***/***",
		"http://user:pw@h.example/":       "http://h***.example/***",
		"+4915112345678":                  "+49***78",
		"topic:news":                      "topic:n***",
		"fGciOiJIUzI1NiIsInR5cCI6-token":  "***",
		`{"endpoint":"https://push.example/abc","keys":{"auth":"x"}}`: "***",
	} {
		if got := maskRecipient(recipient); got != want {
			t.Errorf("%q is shown as %q, want %q", recipient, got, want)
		}
	}
}

func TestNothingOfTheRecipientIsLeftBelowOperator(t *testing.T) {
	const recipient = "ada.lovelace@example.org"
	record := intents.Record{
		Intent:   intents.Intent{Recipient: recipient, Message: "550 <Ada.Lovelace@EXAMPLE.org>: no such user"},
		Attempts: []intents.Attempt{{Message: "to " + recipient + ", forwards to eve@elsewhere.test"}},
		Evidence: []intents.Evidence{{Message: "bounce from " + recipient}},
		Changes:  []intents.Change{{Detail: "asked " + recipient}},
	}
	for _, role := range []Role{Viewer, Operator, Admin} {
		seen := Principal{Role: role, Caller: everyCaller}.shown(record)
		detail := viewDetail(seen, Explain(seen, mailContract))
		text := strings.ToLower(cmp.Diff(nil, detail))
		leaked := strings.Contains(text, "lovelace") || strings.Contains(text, "example.org") || strings.Contains(text, "elsewhere.test")
		if leaked != (role != Viewer) {
			t.Errorf("%s: leaked=%v in %s", role, leaked, text)
		}
	}
	if record.Attempts[0].Message != "to "+recipient+", forwards to eve@elsewhere.test" {
		t.Error("masking changed the record that it was given")
	}
}
