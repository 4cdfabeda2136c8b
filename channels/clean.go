package channels

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes foreign text safe to store and show: valid UTF-8, one line, no control or invisible formatting characters
// (terminal escapes, bidirectional overrides, NUL, which PostgreSQL's text refuses), at most MaxMessage bytes cut at a rune
// boundary.
func clean(s string) string { return cut(oneLine(s), MaxMessage) }

// cleanCode does the same for a code.
func cleanCode(s string) string { return cut(oneLine(s), MaxCode) }

func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// cut shortens valid UTF-8 to at most limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.TrimSpace(s[:limit])
}
