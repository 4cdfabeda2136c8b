package webhook

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/onebell/onebell/channels"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a request's content. Validate holds the same rules.
func Schema() json.RawMessage { return bytes.Clone(schema) }

// maxContent bounds a content, in bytes. Standard Webhooks advises bodies under 20 KB; receivers commonly take a few
// hundred.
const maxContent = 256 << 10

var typeName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

type content struct {
	kind string
	data json.RawMessage
}

// parseContent reads a content by the schema's rules. Member names are compared exactly, which encoding/json's structs do
// not.
func parseContent(raw json.RawMessage) (content, error) {
	if len(raw) > maxContent {
		return content{}, refuse(channels.CodeContentTooLarge, "content", fmt.Sprintf("a webhook's content has at most %d bytes; send a reference in place of the thing", maxContent))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return content{}, refuse(channels.CodeContentInvalid, "content", `give an object with the members "type" and "data"`)
	}
	for name := range members {
		if name != "type" && name != "data" {
			return content{}, refuse(channels.CodeContentInvalid, "content", `only "type" and "data" may stand in the content; move the other members into "data"`)
		}
	}
	var c content
	if err := json.Unmarshal(members["type"], &c.kind); err != nil || len(c.kind) > 128 || !typeName.MatchString(c.kind) {
		return content{}, refuse(channels.CodeContentInvalid, "content.type", "give a string of 1 to 128 characters: segments of letters, digits, _ and -, joined by full stops, like receipt.ready")
	}
	c.data = bytes.TrimSpace(members["data"])
	if len(c.data) == 0 || c.data[0] != '{' {
		return content{}, refuse(channels.CodeContentInvalid, "content.data", "give an object, if only an empty one")
	}
	return c, nil
}

// render writes the body that every attempt sends: no blanks, data's members and numbers as they came.
func render(m channels.Message) ([]byte, error) {
	c, err := parseContent(m.Content)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":%q,"timestamp":%q,"data":`, c.kind, m.OccurredAt.UTC().Format("2006-01-02T15:04:05.999999Z07:00")) // %q is JSON for this alphabet
	if err := json.Compact(&b, c.data); err != nil {
		return nil, refuse(channels.CodeContentInvalid, "content.data", "give valid JSON")
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func refuse(code, field, message string) *channels.Refusal {
	return &channels.Refusal{Code: code, Field: field, Message: message}
}
