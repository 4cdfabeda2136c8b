package wire

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/onebell/onebell/dedup"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sameJSON compares without regard to order and blanks.
func sameJSON(t *testing.T, name string, got, want []byte) {
	t.Helper()
	g, err := dedup.CanonicalJSON(got)
	if err != nil {
		t.Errorf("%s: written form %s: %v", name, got, err)
		return
	}
	w, err := dedup.CanonicalJSON(want)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if string(g) != string(w) {
		t.Errorf("%s: written again it is\n%s\nnot\n%s", name, g, w)
	}
}

// Every golden file is read and written again; a file that no line here reads fails the test, too.
func TestGoldenFilesAreTheContract(t *testing.T) {
	read := map[string]func([]byte) ([]byte, error){}
	add := func(f func([]byte) ([]byte, error), names ...string) {
		for _, name := range names {
			read[name] = f
		}
	}
	add(again(DecodeReply), "reply-accepted.json", "reply-duplicate.json", "reply-conflict.json", "reply-superseded.json", "reply-stale.json", "reply-refused.json")
	add(again(DecodeRef), "status-request.json", "cancel-request.json")
	add(again(DecodeStatus), "status-reply.json", "status-reply-settled.json")
	add(again(DecodeCancelled), "cancel-reply.json", "cancel-reply-too-late.json", "cancel-reply-not-found.json")
	add(again(DecodeEvent), "event.json", "event-refusal.json")
	add(nil, "request.json", "request-least.json", "request-full.json", "error.json", "error-field.json") // below
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if file.IsDir() {
			continue // the fuzzer's corpus
		}
		name := file.Name()
		f, ok := read[name]
		if !ok {
			t.Errorf("nothing reads %s", name)
			continue
		}
		seen++
		if f == nil {
			continue
		}
		data := golden(t, name)
		out, err := f(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sameJSON(t, name, out, data)
	}
	if seen != len(read) {
		t.Errorf("%d of %d golden files are there", seen, len(read))
	}
}

func again[T interface{ Encode() []byte }](decode func([]byte) (T, error)) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		v, err := decode(data)
		return v.Encode(), err
	}
}

func TestGoldenRequests(t *testing.T) {
	plain := Request{
		Key: "receipt-mail:8841", OccurredAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), Recipient: "ada@example.org", Priority: Normal,
	}
	documented := plain
	documented.Content = json.RawMessage(`{"subject":"Your receipt","text":"…","html":"…"}`)
	least := plain
	least.Content = json.RawMessage(`{}`)
	full := Request{
		Key: "order:8841:shipped", Revision: 2147483647, OccurredAt: time.Date(2026, 11, 30, 10, 30, 0, 123456000, time.UTC), Recipient: "topic:orders",
		Content:    json.RawMessage(`{"title":"Shipped","body":"On its way","data":{"order":"8841"}}`),
		CollapseID: "order 8841", NotBefore: time.Date(2026, 12, 1, 7, 0, 0, 0, time.UTC), ExpiresAt: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC),
		Priority: High, Labels: map[string]string{"team": "logistics", "run.id": "2026-11-30"},
	}
	for name, want := range map[string]Request{"request.json": documented, "request-least.json": least, "request-full.json": full} {
		got, err := Decode(golden(t, name))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads as\n%+v, %v\nnot\n%+v", name, got, err, want)
			continue
		}
		payload, err := got.Encode()
		if err != nil {
			t.Errorf("%s cannot be written again: %v", name, err)
			continue
		}
		if back, err := Decode(payload); err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%s, written as %s, reads as %+v, %v", name, payload, back, err)
		}
	}
}

func TestGoldenErrors(t *testing.T) {
	for name, want := range map[string]Refusal{
		"error.json":       {CodeUnavailable, "", "the database cannot be reached; ask again, it is safe"},
		"error-field.json": {dedup.CodeKeyInvalid, "key", "the key has one segment; write it as kind:entity, for example receipt-mail:8841"},
	} {
		data := golden(t, name)
		sameJSON(t, name, EncodeError(&want), data)
		_, e1 := DecodeReply(data)
		_, e2 := DecodeStatus(data)
		_, e3 := DecodeCancelled(data)
		for _, err := range []error{e1, e2, e3} {
			if r := refusal(t, err); *r != want {
				t.Errorf("%s reads as %+v", name, r)
			}
		}
	}
}

// An older producer understands a newer dispatcher.
func TestAnswersMayGainMembers(t *testing.T) {
	if r, err := DecodeReply([]byte(`{"verdict":"accepted","intent":"x","state":"pending","brand_new":{"a":[1]}}`)); err != nil || r.Verdict != Accepted {
		t.Errorf("reply: %+v, %v", r, err)
	}
	if e, err := DecodeEvent([]byte(`{"id":"x","what":"succeeded","brand_new":1}`)); err != nil || e.What != WhatSucceeded {
		t.Errorf("event: %+v, %v", e, err)
	}
	for _, broken := range []string{``, `null`, `[]`, `{"what":"succeeded"}`, `{"id":"x"}`} {
		if _, err := DecodeEvent([]byte(broken)); err == nil {
			t.Errorf("event %q passes", broken)
		}
	}
	if _, err := DecodeReply([]byte(`hello`)); err == nil {
		t.Error("a reply that is no JSON passes")
	}
}
