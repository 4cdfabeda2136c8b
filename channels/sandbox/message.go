package sandbox

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onebell/onebell/channels"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a request's content. Validate holds the same rules.
func Schema() json.RawMessage { return bytes.Clone(schema) }

const maxScript = 100 // words

type content struct {
	Script []string
	Text   string
}

// parse reads a content by the schema's rules.
func parse(raw json.RawMessage) (content, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return content{}, invalid("content", `give an object; it may hold "script" and "text"`)
	}
	var c content
	for name, value := range members {
		switch name {
		case "script":
			if json.Unmarshal(value, &c.Script) != nil || len(c.Script) == 0 || len(c.Script) > maxScript || !known(c.Script) {
				return content{}, invalid("content.script", fmt.Sprintf("give a list of 1 to %d of %s", maxScript, strings.Join(Words(), ", ")))
			}
		case "text":
			if value[0] != '"' || json.Unmarshal(value, &c.Text) != nil {
				return content{}, invalid("content.text", "give a string")
			}
		default:
			return content{}, invalid("content", `only "script" and "text" may stand in the content`)
		}
	}
	return c, nil
}

func render(raw json.RawMessage) ([]byte, error) {
	if _, err := parse(raw); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, invalid("content", "give valid JSON")
	}
	return b.Bytes(), nil
}

func invalid(field, message string) *channels.Refusal {
	return &channels.Refusal{Code: channels.CodeContentInvalid, Field: field, Message: message}
}

func known(script []string) bool {
	for _, word := range script {
		if _, ok := plays[word]; !ok {
			return false
		}
	}
	return true
}

func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
