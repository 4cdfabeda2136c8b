package client

import (
	"fmt"
	"strings"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/wire"
)

// Key builds the key of a fact: Key("receipt-mail", orderID) is receipt-mail:<orderID>. Parts are of A-Z a-z 0-9 . _ ~ = -; a colon within a
// part is refused, because two lists of parts could then give one key. Name facts by ids of your own, never by an address.
// The error is a *wire.Refusal.
func Key(kind, entity string, qualifiers ...string) (dedup.Key, error) {
	parts := append([]string{kind, entity}, qualifiers...)
	for i, part := range parts {
		if strings.Contains(part, ":") {
			return "", &wire.Refusal{
				Code: dedup.CodeKeyInvalid, Field: "key",
				Message: fmt.Sprintf("part %d of the key holds a colon; pass each segment as a part of its own", i+1),
			}
		}
	}
	key, err := dedup.ParseKey(strings.Join(parts, ":"))
	if err != nil {
		return "", refused(err)
	}
	return key, nil
}
