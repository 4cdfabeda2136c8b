package dedup

import (
	"fmt"
	"strings"
)

// Key is a domain fact in the grammar `kind:entity[:qualifier …]`; make it with ParseKey. Keys are compared byte for byte.
type Key string

// Limits of names, in bytes.
const (
	MinKey     = 3
	MaxKey     = 200
	MaxCaller  = 64
	MaxChannel = 32
)

// ParseKey checks a key: 3 to 200 bytes, at least two segments joined by colons, each of the characters A–Z a–z 0–9 . _ ~ = -.
// The error is an *InputError with CodeKeyInvalid.
func ParseKey(s string) (Key, error) {
	bad := func(format string, args ...any) (Key, error) {
		return "", &InputError{CodeKeyInvalid, "key", fmt.Sprintf(format, args...)}
	}
	switch {
	case s == "":
		return bad("a key is required; write it as kind:entity, for example receipt-mail:8841")
	case len(s) < MinKey || len(s) > MaxKey:
		return bad("the key has %d bytes; it must have %d to %d (put a digest in the place of a long part)", len(s), MinKey, MaxKey)
	}
	segments := 1
	for i := range len(s) {
		switch c := s[i]; {
		case c == ':' && (i == 0 || s[i-1] == ':'):
			return bad("segment %d of the key is empty; write it as kind:entity[:qualifier]", segments)
		case c == ':':
			segments++
		case !keyChar(c):
			return bad("byte %d of the key is not allowed; use A-Z a-z 0-9 . _ ~ = - and colons between segments. "+
				"Name the fact by an id of your own, never by an address or a phone number", i+1)
		}
	}
	switch {
	case s[len(s)-1] == ':':
		return bad("the last segment of the key is empty; write it as kind:entity[:qualifier]")
	case segments < 2:
		return bad("the key has one segment; write it as kind:entity, for example receipt-mail:8841")
	}
	return Key(s), nil
}

func keyChar(c byte) bool { return lowerOrDigit(c) || letter(c) || strings.IndexByte("._~=-", c) >= 0 }

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func lowerOrDigit(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// ParseCaller checks the name of a producer, [a-z0-9_-]{1,64}. The error is an *InputError with CodeCallerInvalid.
func ParseCaller(s string) (string, error) {
	return parseName(s, "caller", MaxCaller, CodeCallerInvalid)
}

// ParseChannel checks the name of a channel instance, [a-z0-9_-]{1,32}. The error is an *InputError with CodeChannelInvalid.
func ParseChannel(s string) (string, error) {
	return parseName(s, "channel", MaxChannel, CodeChannelInvalid)
}

func parseName(s, what string, most int, code string) (string, error) {
	if len(s) < 1 || len(s) > most {
		return "", &InputError{code, what, fmt.Sprintf("the %s name has %d bytes; it must have 1 to %d", what, len(s), most)}
	}
	for i := range len(s) {
		if !lowerOrDigit(s[i]) && s[i] != '_' && s[i] != '-' {
			return "", &InputError{code, what, fmt.Sprintf("byte %d of the %s name is not allowed; use a-z 0-9 _ -", i+1, what)}
		}
	}
	return s, nil
}
