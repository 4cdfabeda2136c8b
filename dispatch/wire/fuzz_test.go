package wire

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
)

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"request.json", "request-least.json", "request-full.json"} {
		f.Add(golden(f, name))
	}
	for _, s := range []string{
		``, `null`, `[]`, `{"key":null}`, `{"key":"a:b","key":"c:d"}`, request(map[string]string{"revision": "1e9"}), request(map[string]string{"labels": `{"a":"b"}`}),
		request(map[string]string{"content": `{"a":{"b":[1.50,"\u00e9"]}}`}), request(map[string]string{"occurred_at": `"0001-01-01T00:00:00Z"`}),
	} {
		f.Add([]byte(s))
	}
	var codes []string
	for _, c := range Codes() {
		codes = append(codes, c.Code)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := Decode(payload)
		if err != nil {
			if got := refusal(t, err); !slices.Contains(codes, got.Code) || got.Code == CodeInternal || got.Message == "" {
				t.Fatalf("refused with %+v", got)
			}
			return
		}
		if r.OccurredAt.IsZero() {
			return // the year 1 is written as no time at all
		}
		again, err := r.Encode()
		if err != nil {
			if refusal(t, err).Code == CodePayloadTooLarge {
				return // escapes can be longer than what was written
			}
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		// encoding/json may escape the content otherwise than the sender did.
		r.Content, back.Content = nil, nil
		if !reflect.DeepEqual(r, back) {
			t.Fatalf("read %+v, written and read %+v", r, back)
		}
	})
}

// FuzzAnswers: what comes back over the wire, or is sent in its place, is read or refused, and what was read can be written and read.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"reply-accepted.json", "reply-conflict.json", "status-reply.json", "cancel-reply.json", "event.json", "event-refusal.json", "error.json", "status-request.json"} {
		f.Add(golden(f, name))
	}
	for _, s := range []string{``, `null`, `{}`, `{"error":null}`, `{"error":{}}`, `{"error":{"code":"stale","message":"m"}}`, `{"verdict":1}`, `{"channel":"mail","key":"a:b","revision":0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := DecodeReply(data); err == nil {
			rewritten(t, v, v.Encode, DecodeReply)
		}
		if v, err := DecodeStatus(data); err == nil {
			rewritten(t, v, v.Encode, DecodeStatus)
		}
		if v, err := DecodeCancelled(data); err == nil {
			rewritten(t, v, v.Encode, DecodeCancelled)
		}
		if v, err := DecodeEvent(data); err == nil {
			rewritten(t, v, v.Encode, DecodeEvent)
		}
		if v, err := DecodeRef(data); err == nil {
			rewritten(t, v, v.Encode, DecodeRef)
		}
	})
}

func rewritten[T any](t *testing.T, v T, encode func() []byte, decode func([]byte) (T, error)) {
	t.Helper()
	text := encode()
	back, err := decode(text)
	if err != nil || !bytes.Equal(text, any(back).(interface{ Encode() []byte }).Encode()) {
		t.Fatalf("%+v was written as %s and read as %+v, %v", v, text, back, err)
	}
}

// FuzzSubject: a subject that is taken is exactly the one that its parts make.
func FuzzSubject(f *testing.F) {
	for _, s := range []string{
		"onebell.request.shop.mail", "onebell.submit.shop.mail", "onebell.status.shop", "onebell.cancel.shop", "onebell.request.*.mail",
		"onebell.request.shop", "onebell.request..mail", "onebell.request.shop.mail.x", "onebell.request.SHOP.mail", ">", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		r, err := ParseSubject(subject)
		if err != nil {
			return
		}
		made := map[Kind]string{
			KindRequest: RequestSubject(r.Caller, r.Channel), KindSubmit: SubmitSubject(r.Caller, r.Channel),
			KindStatus: StatusSubject(r.Caller), KindCancel: CancelSubject(r.Caller),
		}[r.Kind]
		if made != subject {
			t.Fatalf("%q was read as %+v, which makes %q", subject, r, made)
		}
	})
}
