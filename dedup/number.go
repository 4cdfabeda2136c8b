package dedup

import (
	"math"
	"strconv"
	"strings"
)

// maxSafe is the largest integer n for which both n and n+1 are doubles (RFC 7493, section 2.2).
const maxSafe = 1<<53 - 1

const maxNumberText = 64

func (w *walker) number() *InputError {
	start := w.pos
	for w.pos < len(w.data) && strings.IndexByte("+-.0123456789eE", w.data[w.pos]) >= 0 {
		w.pos++
	}
	if !faithful(string(w.data[start:w.pos])) {
		return w.fail(CodeJSONNumber, "this number cannot be kept exactly (beyond 9007199254740991, or too many digits); send it as a string")
	}
	return nil
}

// faithful reports whether a double holds the number: printed with as many digits as were written, it gives the number back. So
// 0.1 and 0.10000000000000001, which are two prints of one double, pass; 12345678901234.567 and .568, which are two numbers
// and one double, do not: a canonical form would call them the same.
func faithful(text string) bool {
	if len(text) > maxNumberText {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > maxSafe {
		return false
	}
	digits := significant(text)
	if digits == "" {
		return true // zero, however it is written
	}
	printed := significant(strconv.FormatFloat(f, 'e', len(digits)-1, 64))
	return strings.TrimRight(printed, "0") == strings.TrimRight(digits, "0")
}

// significant returns the digits of the number without sign, point, exponent and the zeros on the left.
func significant(text string) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	return strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
}
