package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// MaxSample bounds the shape in a sample, in bytes.
const MaxSample = 512

// Sample shows the shape of a payload that could not be read, with every value struck out, for whoever must find its sender's mistake:
// brackets, commas, colons and the names of a request's members stand as they are; other strings become "…", anything else #. Broken
// JSON is fine.
func Sample(payload []byte) string {
	var b strings.Builder
	for i := 0; i < len(payload) && b.Len() <= MaxSample; {
		switch c := payload[i]; {
		case strings.IndexByte("{}[]:,", c) >= 0:
			b.WriteByte(c)
			i++
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '"':
			end, closed := stringEnd(payload, i)
			b.WriteString(shownString(payload[i:end], closed, payload[end:]))
			i = end
		default:
			b.WriteByte('#')
			for i < len(payload) && bytes.IndexByte([]byte("{}[]:,\" \t\n\r"), payload[i]) < 0 {
				i++
			}
		}
	}
	shape := b.String()
	if len(shape) > MaxSample {
		shape = strings.ToValidUTF8(shape[:MaxSample], "") + "…"
	}
	return fmt.Sprintf("%s (%d bytes)", shape, len(payload))
}

// stringEnd returns the index behind the string that begins at i, and whether it was closed.
func stringEnd(payload []byte, i int) (end int, closed bool) {
	for i++; i < len(payload); i++ {
		switch payload[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return len(payload), false
}

func shownString(s []byte, closed bool, rest []byte) string {
	switch {
	case !closed:
		return `"…`
	case bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")) && slices.Contains(requestMembers, string(s[1:len(s)-1])):
		return string(s)
	}
	return `"…"`
}
