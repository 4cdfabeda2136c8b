package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/dedup"
)

func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error %v is no Refusal", err)
	}
	return r
}

// request writes a good request with some members replaced; "" leaves one out.
func request(changes map[string]string) string {
	members := map[string]string{
		"key": `"receipt-mail:8841"`, "occurred_at": `"2026-11-30T10:00:00Z"`, "recipient": `"ada@example.org"`, "content": `{"text":"hello"}`,
	}
	for name, value := range changes {
		members[name] = value
	}
	var out []string
	for name, value := range members {
		if value != "" {
			out = append(out, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestDecodeRefuses(t *testing.T) {
	const canary = "CANARY"
	long := strings.Repeat("x", 5000)
	seventeen := `{"l0":""`
	for i := 1; i < 17; i++ {
		seventeen += fmt.Sprintf(`,"l%d":""`, i)
	}
	seventeen += "}"
	for name, tc := range map[string]struct {
		member, value string
		code, field   string
	}{
		"unknown member":            {"recipent", `"CANARY"`, CodeMemberUnknown, "recipent"},
		"unknown personal member":   {"CANARY@example.org", `1`, CodeMemberUnknown, "*"},
		"long unknown member":       {strings.Repeat("x", 41), `1`, CodeMemberUnknown, "*"},
		"member in capitals":        {"Revision", `1`, CodeMemberUnknown, "Revision"},
		"X2 caller in the payload":  {"caller", `"CANARY"`, CodeMemberUnknown, "caller"},
		"X2 channel in the payload": {"channel", `"CANARY"`, CodeMemberUnknown, "channel"},
		"no key":                    {"key", ``, CodeMemberMissing, "key"},
		"null key":                  {"key", `null`, CodeMemberMissing, "key"},
		"number as key":             {"key", `8841`, CodeMemberType, "key"},
		"bad key":                   {"key", `"mail:CANARY@example.org"`, dedup.CodeKeyInvalid, "key"},
		"B1 key with NUL":           {"key", `"a\u0000b"`, dedup.CodeJSONNUL, "key"},
		"revision as string":        {"revision", `"1"`, CodeMemberType, "revision"},
		"negative revision":         {"revision", `-1`, CodeRevisionInvalid, "revision"},
		"broken revision":           {"revision", `1.5`, CodeRevisionInvalid, "revision"},
		"large revision":            {"revision", `2147483648`, CodeRevisionInvalid, "revision"},
		"no occurred_at":            {"occurred_at", ``, CodeMemberMissing, "occurred_at"},
		"time as number":            {"occurred_at", `1796032800`, CodeMemberType, "occurred_at"},
		"O5 no offset":              {"occurred_at", `"2026-11-30T10:00:00"`, CodeTimeInvalid, "occurred_at"},
		"no time":                   {"occurred_at", `"2026-11-30"`, CodeTimeInvalid, "occurred_at"},
		"comma":                     {"occurred_at", `"2026-11-30T10:00:00,5Z"`, CodeTimeInvalid, "occurred_at"},
		"one-digit hour":            {"occurred_at", `"2026-11-30T1:00:00Z"`, CodeTimeInvalid, "occurred_at"},
		"offset of a day":           {"occurred_at", `"2026-11-30T10:00:00+24:00"`, CodeTimeInvalid, "occurred_at"},
		"30 February":               {"occurred_at", `"2026-02-30T10:00:00Z"`, CodeTimeInvalid, "occurred_at"},
		"empty time":                {"not_before", `""`, CodeTimeInvalid, "not_before"},
		"O5 not_before, no offset":  {"not_before", `"2026-03-29T02:30:00"`, CodeTimeInvalid, "not_before"},
		"expires_at":                {"expires_at", `"CANARY"`, CodeTimeInvalid, "expires_at"},
		"no recipient":              {"recipient", ``, CodeMemberMissing, "recipient"},
		"empty recipient":           {"recipient", `""`, CodeRecipientInvalid, "recipient"},
		"long recipient":            {"recipient", `"CANARY` + long + `"`, CodeRecipientInvalid, "recipient"},
		"list of recipients":        {"recipient", `["CANARY@example.org"]`, CodeMemberType, "recipient"},
		"B1 bytes no UTF-8":         {"recipient", "\"CANARY\xc3\x28\"", dedup.CodeJSONUTF8, "recipient"},
		"B1 half a surrogate":       {"recipient", `"CANARY\ud800"`, dedup.CodeJSONUTF8, "recipient"},
		"no content":                {"content", ``, CodeMemberMissing, "content"},
		"content as text":           {"content", `"CANARY"`, CodeMemberType, "content"},
		"content as list":           {"content", `[]`, CodeMemberType, "content"},
		"B1 subject with NUL":       {"content", `{"subject":"CANARY\u0000"}`, dedup.CodeJSONNUL, "content.subject"},
		"B1 raw NUL":                {"content", "{\"subject\":\"CANARY\x00\"}", dedup.CodeJSONNUL, "content.subject"},
		"W4d large integer":         {"content", `{"n":9007199254740993}`, dedup.CodeJSONNumber, "content.n"},
		"W4h duplicate member":      {"content", `{"n":1,"n":1}`, dedup.CodeJSONDuplicateMember, "content.n"},
		"collapse_id of 201 bytes":  {"collapse_id", `"` + long[:201] + `"`, CodeCollapseIDInvalid, "collapse_id"},
		"collapse_id line feed":     {"collapse_id", `"CANARY\n"`, CodeCollapseIDInvalid, "collapse_id"},
		"collapse_id direction":     {"collapse_id", `"CANARY\u202e"`, CodeCollapseIDInvalid, "collapse_id"},
		"collapse_id number":        {"collapse_id", `1`, CodeMemberType, "collapse_id"},
		"priority":                  {"priority", `"CANARY"`, CodePriorityInvalid, "priority"},
		"empty priority":            {"priority", `""`, CodePriorityInvalid, "priority"},
		"priority number":           {"priority", `1`, CodeMemberType, "priority"},
		"labels list":               {"labels", `["CANARY"]`, CodeMemberType, "labels"},
		"label number":              {"labels", `{"a":1}`, CodeMemberType, "labels"},
		"label null":                {"labels", `{"a":null}`, CodeMemberType, "labels"},
		"17 labels":                 {"labels", seventeen, CodeLabelsInvalid, "labels"},
		"label name":                {"labels", `{"CANARY@b":"x"}`, CodeLabelsInvalid, "labels"},
		"empty label name":          {"labels", `{"":"x"}`, CodeLabelsInvalid, "labels"},
		"long label name":           {"labels", `{"` + long[:65] + `":"x"}`, CodeLabelsInvalid, "labels"},
		"long label":                {"labels", `{"a":"` + long[:257] + `"}`, CodeLabelsInvalid, "labels"},
		"label control character":   {"labels", `{"a":"CANARY\u0007"}`, CodeLabelsInvalid, "labels"},
	} {
		_, err := Decode([]byte(request(map[string]string{tc.member: tc.value})))
		if err == nil {
			t.Errorf("%s: not refused", name)
			continue
		}
		r := refusal(t, err)
		if r.Code != tc.code || r.Field != tc.field || len(r.Message) < 20 {
			t.Errorf("%s: %v; want code %s, field %q and a sentence", name, r, tc.code, tc.field)
		}
		if strings.Contains(r.Error(), canary) {
			t.Errorf("%s: the refusal repeats the value: %v", name, r)
		}
	}
}

// X2: whoever tries to name the caller in the payload is told where it comes from.
func TestX2CallerComesFromTheSubject(t *testing.T) {
	for _, member := range []string{"caller", "channel"} {
		_, err := Decode([]byte(request(map[string]string{member: `"other"`})))
		if r := refusal(t, err); !strings.Contains(r.Message, "taken from the subject") {
			t.Errorf("%s: %v", member, r)
		}
	}
}

func TestDecodeRefusesWhatIsNoObject(t *testing.T) {
	for name, tc := range map[string]struct{ payload, code string }{
		"nothing":          {``, dedup.CodeJSONInvalid},
		"text":             {`hello`, dedup.CodeJSONInvalid},
		"list":             {`[]`, CodeMemberType},
		"null":             {`null`, CodeMemberType},
		"string":           {`"x"`, CodeMemberType},
		"two objects":      {request(nil) + request(nil), dedup.CodeJSONInvalid},
		"cut off":          {request(nil)[:40], dedup.CodeJSONInvalid},
		"duplicate member": {`{"key":"a:b","key":"a:b"}`, dedup.CodeJSONDuplicateMember},
		"too deep":         {request(map[string]string{"content": `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`}), dedup.CodeJSONDepth},
	} {
		_, err := Decode([]byte(tc.payload))
		if err == nil {
			t.Errorf("%s: not refused", name)
		} else if r := refusal(t, err); r.Code != tc.code {
			t.Errorf("%s: %v; want code %s", name, r, tc.code)
		}
	}
}

func TestDecodePasses(t *testing.T) {
	sixteen := `{"l0":""`
	for i := 1; i < 16; i++ {
		sixteen += fmt.Sprintf(`,"l%d":"%s"`, i, strings.Repeat("v", 256))
	}
	sixteen += "}"
	for name, change := range map[string]map[string]string{
		"revision 1.0":            {"revision": `1.0`},
		"largest revision":        {"revision": `2147483647`},
		"empty times":             {"not_before": `null`, "expires_at": `null`},
		"expiry after not_before": {"not_before": `"2026-12-01T00:00:00Z"`, "expires_at": `"2026-12-01T00:00:00.000001Z"`},
		"offset":                  {"occurred_at": `"2026-10-25T02:30:00+02:00"`},
		"nanoseconds":             {"occurred_at": `"2026-10-25T02:30:00.123456789-00:30"`},
		"16 labels":               {"labels": sixteen},
		"label name of 64":        {"labels": `{"` + strings.Repeat("x", 64) + `":"ünïcode 1"}`},
		"collapse_id of 200":      {"collapse_id": `"` + strings.Repeat("é", 100) + `"`},
		"recipient of 4096":       {"recipient": `"` + strings.Repeat("x", 4096) + `"`},
	} {
		if _, err := Decode([]byte(request(change))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// B8 and O5: one instant, however it was written, cut to the microsecond.
func TestB8TimesAreCutToMicroseconds(t *testing.T) {
	want := time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC)
	for _, s := range []string{"2026-11-30T23:59:59.9999999Z", "2026-12-01T01:59:59.999999+02:00", "2026-11-30T18:59:59.9999991-05:00"} {
		r, err := Decode([]byte(request(map[string]string{"occurred_at": `"` + s + `"`, "expires_at": `"` + s + `"`})))
		if err != nil || r.OccurredAt != want || r.ExpiresAt != want {
			t.Errorf("%s: %v, %v, %v; want %v", s, r.OccurredAt, r.ExpiresAt, err, want)
		}
		r, err = Decode([]byte(request(map[string]string{"not_before": `"` + s + `"`})))
		if err != nil || r.NotBefore != want {
			t.Errorf("%s: %v, %v; want %v", s, r.NotBefore, err, want)
		}
	}
}

// A request that can never be sent is refused at once, not accepted and expired later.
func TestExpiryNotAfterNotBefore(t *testing.T) {
	for _, expires := range []string{"2026-12-01T00:00:00Z", "2026-11-01T00:00:00Z"} {
		_, err := Decode([]byte(request(map[string]string{"not_before": `"2026-12-01T00:00:00Z"`, "expires_at": `"` + expires + `"`})))
		var r *Refusal
		if !errors.As(err, &r) || r.Code != CodeTimeInvalid || r.Field != "expires_at" {
			t.Errorf("%s: %v", expires, err)
		}
	}
}

// B3: the limit is exact, and a refusal says both sizes.
func TestB3PayloadLimit(t *testing.T) {
	padded := func(size int) []byte {
		body := request(map[string]string{"content": `{"text":"PAD"}`})
		return []byte(strings.Replace(body, "PAD", strings.Repeat("x", size-len(body)+3), 1))
	}
	for size, ok := range map[int]bool{MaxPayload - 1: true, MaxPayload: true, MaxPayload + 1: false} {
		payload := padded(size)
		if len(payload) != size {
			t.Fatalf("made %d bytes, want %d", len(payload), size)
		}
		_, err := Decode(payload)
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
		if !ok && refusal(t, err).Code != CodePayloadTooLarge {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if MaxPayload >= 1<<20 {
		t.Error("no room for headers within the broker's 1 MiB")
	}
}

// A refusal can be filed under its key although something else is wrong.
func TestDecodeKeepsWhatItCouldRead(t *testing.T) {
	r, err := Decode([]byte(request(map[string]string{"revision": "3", "priority": `"x"`})))
	if err == nil || r.Key != "receipt-mail:8841" || r.Revision != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	good := Request{Key: "a:b", OccurredAt: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Recipient: "x", Content: []byte(`{}`)}
	if _, err := good.Encode(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Request)
		code   string
		field  string
	}{
		"no key":           {func(r *Request) { r.Key = "" }, dedup.CodeKeyInvalid, "key"},
		"no time":          {func(r *Request) { r.OccurredAt = time.Time{} }, CodeMemberMissing, "occurred_at"},
		"year 10000":       {func(r *Request) { r.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, CodeTimeInvalid, ""},
		"no content":       {func(r *Request) { r.Content = nil }, CodeMemberMissing, "content"},
		"broken content":   {func(r *Request) { r.Content = []byte(`{`) }, dedup.CodeJSONInvalid, "content"},
		"doubled member":   {func(r *Request) { r.Content = []byte(`{"a":[{"b":1,"b":2}]}`) }, dedup.CodeJSONDuplicateMember, "content.a[0].b"},
		"recipient bytes":  {func(r *Request) { r.Recipient = "\xff" }, dedup.CodeJSONUTF8, "recipient"},
		"collapse_id NUL":  {func(r *Request) { r.CollapseID = "\x00" }, dedup.CodeJSONNUL, "collapse_id"},
		"negative":         {func(r *Request) { r.Revision = -1 }, CodeRevisionInvalid, "revision"},
		"priority":         {func(r *Request) { r.Priority = "urgent" }, CodePriorityInvalid, "priority"},
		"label no UTF-8":   {func(r *Request) { r.Labels = map[string]string{"a": "\xff"} }, CodeLabelsInvalid, "labels"},
		"payload too long": {func(r *Request) { r.Content = []byte(`{"a":"` + strings.Repeat("x", MaxPayload) + `"}`) }, CodePayloadTooLarge, ""},
	} {
		r := good
		tc.change(&r)
		_, err := r.Encode()
		if err == nil {
			t.Errorf("%s: not refused", name)
		} else if got := refusal(t, err); got.Code != tc.code || got.Field != tc.field {
			t.Errorf("%s: %v; want %s at %q", name, got, tc.code, tc.field)
		}
	}
}

func TestDecodeRef(t *testing.T) {
	for payload, code := range map[string]string{
		`{"key":"a:b"}`:                                CodeMemberMissing,
		`{"channel":"mail"}`:                           CodeMemberMissing,
		`{"channel":"Mail","key":"a:b"}`:               dedup.CodeChannelInvalid,
		`{"channel":"mail","key":"a"}`:                 dedup.CodeKeyInvalid,
		`{"channel":"mail","key":"a:b","revision":-1}`: CodeRevisionInvalid,
		`{"channel":"mail","key":"a:b","caller":"x"}`:  CodeMemberUnknown,
		`{"channel":1,"key":"a:b"}`:                    CodeMemberType,
	} {
		_, err := DecodeRef([]byte(payload))
		if err == nil {
			t.Errorf("%s: not refused", payload)
		} else if r := refusal(t, err); r.Code != code {
			t.Errorf("%s: %v; want code %s", payload, r, code)
		}
	}
}

func TestCodesAreUniqueAndExplained(t *testing.T) {
	var seen []string
	for _, c := range Codes() {
		if slices.Contains(seen, c.Code) || strings.Trim(c.Code, "abcdefghijklmnopqrstuvwxyz_0123456789") != "" {
			t.Errorf("code %q stands twice or is misspelled", c.Code)
		}
		if !strings.HasSuffix(c.Explanation, ".") {
			t.Errorf("code %q has no explaining sentence", c.Code)
		}
		seen = append(seen, c.Code)
	}
	// Those that package channels makes, by their spelling there.
	for _, code := range []string{"recipient_invalid", "content_invalid", "content_too_large"} {
		if !slices.Contains(seen, code) {
			t.Errorf("code %q is not listed", code)
		}
	}
}
