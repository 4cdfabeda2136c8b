package pgstore

import "strings"

// clean makes foreign text storable: valid UTF-8 without NUL, which PostgreSQL's text does not hold. An outcome must not be lost
// over what a provider wrote into it.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
