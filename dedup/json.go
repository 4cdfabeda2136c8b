package dedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 64

// CanonicalJSON checks the text with CheckJSON and returns its RFC 8785 form: members sorted, no blanks, one spelling for every number
// and string. Two texts that say the same give the same bytes. The error is an *InputError.
func CanonicalJSON(data []byte) ([]byte, error) {
	if err := CheckJSON(data); err != nil {
		return nil, err
	}
	out, err := jcs.Transform(data)
	if err != nil {
		return nil, &InputError{CodeJSONInvalid, "", "this is not JSON; check it with a JSON validator"}
	}
	return out, nil
}

// CheckJSON refuses what two JSON readers could understand differently, or what PostgreSQL cannot store: anything but one JSON
// value, invalid UTF-8, half surrogate pairs, U+0000, a member named twice, nesting beyond MaxDepth, and numbers that a
// double cannot hold: beyond ±(2⁵³−1), or with digits that would be lost. The error is an *InputError whose Field is the path.
func CheckJSON(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return &InputError{CodeJSONInvalid, "", "there is no JSON here; send one JSON object"}
	}
	if tooDeep(data) {
		return &InputError{CodeJSONDepth, "", fmt.Sprintf("the JSON is nested deeper than %d levels; flatten it", MaxDepth)}
	}
	// A raw NUL is read as a blank here, so that the walk below can name the field it stands in.
	grammar := data
	nul := bytes.IndexByte(data, 0) >= 0
	if nul {
		grammar = bytes.ReplaceAll(data, []byte{0}, []byte{' '})
	}
	var whole json.RawMessage
	if err := json.Unmarshal(grammar, &whole); err != nil {
		if nul {
			return nulError("")
		}
		at := int64(len(data))
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		return &InputError{CodeJSONInvalid, "", fmt.Sprintf("this is not one JSON value; it breaks at byte %d of %d", at, len(data))}
	}
	w := walker{data: data}
	if err := w.value(); err != nil {
		return err
	}
	if err := w.blanks(); err != nil {
		return err
	}
	return nil
}

func nulError(field string) *InputError {
	return &InputError{CodeJSONNUL, field, "it holds the character U+0000, which cannot be stored; remove it"}
}

// tooDeep counts brackets outside strings; it holds for broken JSON, too.
func tooDeep(data []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// walker walks a text that is known to follow the grammar of JSON (but for raw NULs) and knows where it is.
type walker struct {
	data []byte
	pos  int
	path []string
}

func (w *walker) fail(code, message string) *InputError {
	return &InputError{code, strings.TrimPrefix(strings.Join(w.path, ""), "."), message}
}

func (w *walker) blanks() *InputError {
	for ; w.pos < len(w.data); w.pos++ {
		switch w.data[w.pos] {
		case ' ', '\t', '\n', '\r':
		case 0:
			return nulError(w.fail("", "").Field)
		default:
			return nil
		}
	}
	return nil
}

func (w *walker) value() *InputError {
	if err := w.blanks(); err != nil {
		return err
	}
	switch c := w.data[w.pos]; {
	case c == '{':
		return w.members()
	case c == '[':
		return w.elements()
	case c == '"':
		_, err := w.text()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return w.number()
	case c == 't' || c == 'n':
		w.pos += len("true")
	default:
		w.pos += len("false")
	}
	return nil
}

// next skips blanks and reports whether the next character is the closing one; it steps over that, or over a comma.
func (w *walker) next(closing byte) (closed bool, err *InputError) {
	if err := w.blanks(); err != nil {
		return false, err
	}
	c := w.data[w.pos]
	if c == closing || c == ',' {
		w.pos++
	}
	return c == closing, nil
}

func (w *walker) members() *InputError {
	w.pos++ // {
	seen := map[string]struct{}{}
	for {
		if closed, err := w.next('}'); closed || err != nil {
			return err
		}
		if err := w.blanks(); err != nil {
			return err
		}
		w.path = append(w.path, ".*")
		name, err := w.text()
		if err != nil {
			return err
		}
		w.path[len(w.path)-1] = "." + shown(name)
		if _, twice := seen[name]; twice {
			return w.fail(CodeJSONDuplicateMember, "this member stands twice in one object; send it once")
		}
		seen[name] = struct{}{}
		if err := w.blanks(); err != nil {
			return err
		}
		w.pos++ // :
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
}

func (w *walker) elements() *InputError {
	w.pos++ // [
	for i := 0; ; i++ {
		if closed, err := w.next(']'); closed || err != nil {
			return err
		}
		w.path = append(w.path, "["+strconv.Itoa(i)+"]")
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
}

// shown returns a member's name for a path, or * if the name itself could hold personal data.
func shown(name string) string {
	if len(name) == 0 || len(name) > 40 || !letter(name[0]) {
		return "*"
	}
	for i := range len(name) {
		if c := name[i]; !letter(c) && !lowerOrDigit(c) && c != '_' && c != '-' {
			return "*"
		}
	}
	return name
}

// text steps over a string and returns its value.
func (w *walker) text() (string, *InputError) {
	start, escaped := w.pos, false
	for w.pos++; w.data[w.pos] != '"'; {
		switch c := w.data[w.pos]; {
		case c == 0:
			return "", nulError(w.fail("", "").Field)
		case c == '\\':
			escaped = true
			if err := w.escape(); err != nil {
				return "", err
			}
		case c < utf8.RuneSelf:
			w.pos++
		default:
			r, n := utf8.DecodeRune(w.data[w.pos:])
			if r == utf8.RuneError && n == 1 {
				return "", w.fail(CodeJSONUTF8, "it holds bytes that are not UTF-8; encode the text as UTF-8")
			}
			w.pos += n
		}
	}
	w.pos++
	raw := w.data[start:w.pos]
	if !escaped {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", w.fail(CodeJSONInvalid, "this string is not JSON")
	}
	return s, nil
}

// escape steps over one escape sequence, or over a surrogate pair.
func (w *walker) escape() *InputError {
	if w.data[w.pos+1] != 'u' {
		w.pos += 2
		return nil
	}
	const half = "it holds half of a surrogate pair (\\ud800 to \\udfff); send the whole character"
	u := w.unit(w.pos)
	w.pos += 6
	switch {
	case u == 0:
		return nulError(w.fail("", "").Field)
	case u >= 0xdc00 && u <= 0xdfff:
		return w.fail(CodeJSONUTF8, half)
	case u >= 0xd800 && u <= 0xdbff:
		if low := w.unit(w.pos); low < 0xdc00 || low > 0xdfff {
			return w.fail(CodeJSONUTF8, half)
		}
		w.pos += 6
	}
	return nil
}

// unit reads the UTF-16 unit of the \uXXXX at i; -1 if there is none.
func (w *walker) unit(i int) int {
	if i+6 > len(w.data) || w.data[i] != '\\' || w.data[i+1] != 'u' {
		return -1
	}
	u, err := strconv.ParseUint(string(w.data[i+2:i+6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(u)
}
