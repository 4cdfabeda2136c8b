package channels

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes foreign text safe to store and show: valid UTF-8, one line, no control or bidirectional formatting
// characters, at most MaxMessage bytes cut at a rune boundary.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	for len(s) > MaxMessage {
		_, n := utf8.DecodeLastRuneInString(s[:MaxMessage+1])
		s = s[:MaxMessage+1-n]
	}
	return s
}
