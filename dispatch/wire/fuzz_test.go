package wire

import (
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
