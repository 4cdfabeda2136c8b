package dedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCheckJSONRefuses(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for name, tc := range map[string]struct{ in, code, field string }{
		"nothing":                       {"", CodeJSONInvalid, ""},
		"blanks":                        {" \n", CodeJSONInvalid, ""},
		"cut off":                       {`{"a":1`, CodeJSONInvalid, ""},
		"trailing data":                 {`{"a":1} {"a":2}`, CodeJSONInvalid, ""},
		"trailing comma":                {`{"a":1,}`, CodeJSONInvalid, ""},
		"single quotes":                 {`{'a':1}`, CodeJSONInvalid, ""},
		"byte order mark":               {"\ufeff{}", CodeJSONInvalid, ""},
		"NaN":                           {`{"a":NaN}`, CodeJSONInvalid, ""},
		"B1 escaped NUL":                {`{"content":{"subject":"Hello\u0000"}}`, CodeJSONNUL, "content.subject"},
		"B1 raw NUL":                    {"{\"content\":{\"subject\":\"Hello\x00\"}}", CodeJSONNUL, "content.subject"},
		"B1 NUL in key":                 {`{"key":"a\u0000b"}`, CodeJSONNUL, "key"},
		"NUL in a name":                 {`{"content":{"a\u0000":1}}`, CodeJSONNUL, "content.*"},
		"NUL between":                   {"{\"content\":\x00{}}", CodeJSONNUL, "content"},
		"NUL at the end":                {"{}\x00", CodeJSONNUL, ""},
		"NUL in a number":               {"{\"a\":1\x002}", CodeJSONNUL, ""},
		"B1 invalid UTF-8":              {"{\"a\":[1,\"\xc3\x28\"]}", CodeJSONUTF8, "a[1]"},
		"overlong UTF-8":                {"{\"a\":\"\xc0\xaf\"}", CodeJSONUTF8, "a"},
		"raw surrogate":                 {"{\"a\":\"\xed\xa0\x80\"}", CodeJSONUTF8, "a"},
		"B1 lone high surrogate":        {`{"a":"\ud800"}`, CodeJSONUTF8, "a"},
		"lone low surrogate":            {`{"a":"\udc00"}`, CodeJSONUTF8, "a"},
		"high before letter":            {`{"a":"\ud800\u0041"}`, CodeJSONUTF8, "a"},
		"high before private use":       {`{"a":"\ud800\ue000"}`, CodeJSONUTF8, "a"},
		"high before high":              {`{"a":"\ud83d\ud83d\ude00"}`, CodeJSONUTF8, "a"},
		"W4h same member twice":         {`{"a":1,"a":2}`, CodeJSONDuplicateMember, "a"},
		"W4h same value twice":          {`{"a":1,"a":1}`, CodeJSONDuplicateMember, "a"},
		"duplicate below":               {`{"content":{"x":[{"b":1,"c":2,"b":3}]}}`, CodeJSONDuplicateMember, "content.x[0].b"},
		"duplicate by escape":           {`{"content":{"a":1,"\u0061":2}}`, CodeJSONDuplicateMember, "content.a"},
		"2^53":                          {`{"a":9007199254740992}`, CodeJSONNumber, "a"},
		"W4d 2^53+1":                    {`{"a":9007199254740993}`, CodeJSONNumber, "a"},
		"2^53+1 with point":             {`{"a":9007199254740993.0}`, CodeJSONNumber, "a"},
		"2^53+1 with exponent":          {`{"a":9007199254740.993e3}`, CodeJSONNumber, "a"},
		"-2^53":                         {`{"a":-9007199254740992}`, CodeJSONNumber, "a"},
		"not finite":                    {`{"a":1e400}`, CodeJSONNumber, "a"},
		"becomes zero":                  {`{"a":1e-400}`, CodeJSONNumber, "a"},
		"large":                         {`{"a":1e20}`, CodeJSONNumber, "a"},
		"digits lost":                   {`{"a":12345678901234.567}`, CodeJSONNumber, "a"},
		"pi with 21 digits":             {`{"a":3.14159265358979323846}`, CodeJSONNumber, "a"},
		"65 characters":                 {`{"a":0.` + strings.Repeat("0", 62) + `1}`, CodeJSONNumber, "a"},
		"too deep":                      {deep, CodeJSONDepth, ""},
		"too deep and broken":           {strings.Repeat("[", 100000), CodeJSONDepth, ""},
		"a name that could be personal": {`{"ada@example.org":1e400}`, CodeJSONNumber, "*"},
	} {
		err := CheckJSON([]byte(tc.in))
		var e *InputError
		if !errors.As(err, &e) || e.Code != tc.code || e.Field != tc.field {
			t.Errorf("%s: error %v; want code %s, field %q", name, err, tc.code, tc.field)
		}
		if _, err := CanonicalJSON([]byte(tc.in)); err == nil {
			t.Errorf("%s: CanonicalJSON passes what CheckJSON refuses", name)
		}
	}
}

func TestCheckJSONPasses(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, in := range []string{
		`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `""`, ` {"a" : [ 1 , 2 ] } `, deep,
		`9007199254740991`, `-9007199254740991`, `9007199254740991.0`, `1e15`, `0.1`, `0.10000000000000001`, `100`, `1.50`, `5e-324`,
		`{"a":{"a":{"a":1}}}`, `[{"a":1},{"a":1}]`, `"\ud83d\ude00"`, `"\"` + strings.Repeat("[", MaxDepth+1) + `"`, `"😀 \\u0000 \"{["`, `{"\\":"\\"}`,
	} {
		if err := CheckJSON([]byte(in)); err != nil {
			t.Errorf("%s refused: %v", in, err)
		}
	}
}

// W4 a, b, c, e: what RFC 8785 calls the same is the same.
func TestW4CanonicalJSON(t *testing.T) {
	const want = `{"a":1,"b":"é","c":[1,2.5,null]}`
	for name, in := range map[string]string{
		"a order":            `{"c":[1,2.5,null],"b":"é","a":1}`,
		"b blanks":           "{ \"a\" : 1,\r\n\t\"b\":\"é\", \"c\": [1, 2.5, null] }",
		"c number":           `{"a":1.0,"b":"é","c":[1e0,25e-1,null]}`,
		"e escaped letter":   `{"a":1,"b":"\u00e9","c":[1,2.5,null]}`,
		"e escaped in name":  `{"\u0061":1,"b":"é","c":[1,2.5,null]}`,
		"e upper-case digit": `{"a":1,"b":"\u00E9","c":[1,2.5,null]}`,
	} {
		got, err := CanonicalJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	for _, other := range []string{
		`{"a":1,"b":"e\u0301","c":[1,2.5,null]}`,    // another Unicode form is another text
		`{"a":1,"b":"é","c":[2.5,1,null]}`,          // order counts in arrays
		`{"a":1,"b":"é","c":[1,2.5,null],"d":null}`, // f: null is a value, absent is none
		`{"a":"1","b":"é","c":[1,2.5,null]}`,        // a string is no number
		`{"a":1,"b":"é","c":[1,2.5000000001,null]}`, // digits count
	} {
		if got, err := CanonicalJSON([]byte(other)); err != nil || string(got) == want {
			t.Errorf("%s: %s, %v; want another canonical form", other, got, err)
		}
	}
}

// Any tree, written twice with its members in another order and other blanks, has one canonical form, and that form is its own.
func TestCanonicalJSONDoesNotSeeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 3)
		a, err := CanonicalJSON(write(t, tree))
		if err != nil {
			t.Fatal(err)
		}
		b, err := CanonicalJSON(write(t, tree))
		if err != nil {
			t.Fatal(err)
		}
		again, err := CanonicalJSON(a)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) || !bytes.Equal(a, again) {
			t.Fatalf("three forms of one tree:\n%s\n%s\n%s", a, b, again)
		}
	})
}

type member struct {
	name  string
	value any
}

// drawTree draws a value: a member list is an object, a slice an array, everything else is what encoding/json writes.
func drawTree(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	text := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 }))
	switch {
	case kind == 0 && depth > 0:
		var out []member
		for _, name := range rapid.SliceOfNDistinct(text, 0, 4, rapid.ID[string]).Draw(t, "names") {
			out = append(out, member{name, drawTree(t, depth-1)})
		}
		return out
	case kind == 1 && depth > 0:
		out := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range out {
			out[i] = drawTree(t, depth-1)
		}
		return out
	case kind == 2:
		return rapid.Int64Range(-maxSafe, maxSafe).Draw(t, "integer")
	case kind == 3:
		return rapid.Float64Range(-1e15, 1e15).Draw(t, "number")
	case kind == 4:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "literal")
	}
	return text.Draw(t, "text")
}

func write(t *rapid.T, v any) []byte {
	blank := func() string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "blank") }
	var b bytes.Buffer
	var put func(v any)
	put = func(v any) {
		b.WriteString(blank())
		switch v := v.(type) {
		case []member:
			b.WriteString("{" + blank())
			for i, m := range rapid.Permutation(v).Draw(t, "order") {
				if i > 0 {
					b.WriteString(",")
				}
				put(m.name)
				b.WriteString(":")
				put(m.value)
			}
			b.WriteString("}")
		case []any:
			b.WriteString("[" + blank())
			for i, e := range v {
				if i > 0 {
					b.WriteString(",")
				}
				put(e)
			}
			b.WriteString("]")
		default:
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(raw)
		}
		b.WriteString(blank())
	}
	put(v)
	return b.Bytes()
}
