package smtp

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onebell/onebell/channels"
)

// Limits of a mail's content. The JSON as a whole is bounded by Contract.MaxContentBytes.
const (
	maxContent        = 1 << 20 // bytes of JSON, base64 included; a broker takes no larger message by default
	maxSubject        = 998     // characters
	maxHeaders        = 20
	maxHeaderName     = 64
	maxHeaderValue    = 900 // characters
	maxAttachments    = 20
	maxAttachmentName = 72 // characters: encoded for a header, three bytes each for up to four, it stays within one line
	maxMediaType      = 100
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of a mail's content.
func Schema() []byte { return slices.Clone(schema) }

// content is a mail as the producer gave it, checked.
type content struct {
	subject, text, html, replyTo string
	headers                      map[string]string
	attachments                  []attachment
}

type attachment struct {
	name, mediaType string
	data            []byte
}

func invalid(field, sentence string) *channels.Refusal {
	return &channels.Refusal{Code: channels.CodeContentInvalid, Field: field, Message: sentence}
}

// parseContent reads a mail's content strictly. keyHeader is the header that onebell itself fills, or "". The error is a *channels.Refusal.
func parseContent(raw json.RawMessage, keyHeader string) (content, error) {
	var c content
	if len(raw) > maxContent {
		return c, &channels.Refusal{
			Code: channels.CodeContentTooLarge, Field: "content",
			Message: fmt.Sprintf("the content has more than %d bytes; send a link instead of large attachments", maxContent),
		}
	}
	if !utf8.Valid(raw) {
		return c, invalid("content", "it is not valid UTF-8; encode it as UTF-8")
	}
	members, err := object(raw, "content", "subject", "text", "html", "reply_to", "headers", "attachments")
	if err != nil {
		return c, err
	}
	for _, read := range []func(map[string]json.RawMessage) error{
		c.readSubject, c.readBodies, c.readReplyTo,
		func(m map[string]json.RawMessage) error { return c.readHeaders(m, keyHeader) }, c.readAttachments,
	} {
		if err := read(members); err != nil {
			return c, err
		}
	}
	return c, nil
}

// object reads a JSON object whose members have the given names, spelled exactly so (encoding/json alone ignores case).
func object(raw json.RawMessage, field string, names ...string) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, invalid(field, "it must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(names) > 0 && !slices.Contains(names, name) {
			return nil, invalid(field, "it holds a member that is not known; known are "+strings.Join(names, ", "))
		}
	}
	return members, nil
}

// text reads a string member, "" where there is none. A string that is given must not be empty.
func text(members map[string]json.RawMessage, name, field string) (string, error) {
	raw, ok := members[name]
	if !ok {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", invalid(field, "it must be a JSON string, in quotes")
	}
	if *s == "" {
		return "", invalid(field, "it is empty; leave the member out or fill it")
	}
	return *s, nil
}

func (c *content) readSubject(members map[string]json.RawMessage) (err error) {
	if c.subject, err = text(members, "subject", "content.subject"); err != nil {
		return err
	}
	switch {
	case c.subject == "":
		return invalid("content.subject", "a mail needs a subject; give one")
	case !oneLine(c.subject):
		return invalid("content.subject", "it holds a line break or a control character; a subject is one line")
	case utf8.RuneCountInString(c.subject) > maxSubject:
		return invalid("content.subject", fmt.Sprintf("it has more than %d characters; shorten it", maxSubject))
	}
	return nil
}

func (c *content) readBodies(members map[string]json.RawMessage) (err error) {
	if c.text, err = text(members, "text", "content.text"); err != nil {
		return err
	}
	if c.html, err = text(members, "html", "content.html"); err != nil {
		return err
	}
	switch {
	case c.text == "" && c.html == "":
		return invalid("content.text", "a mail needs a body; give text, html or both")
	case strings.ContainsRune(c.text, 0):
		return invalid("content.text", "it holds the character U+0000; remove it")
	case strings.ContainsRune(c.html, 0):
		return invalid("content.html", "it holds the character U+0000; remove it")
	}
	return nil
}

func (c *content) readReplyTo(members map[string]json.RawMessage) error {
	s, err := text(members, "reply_to", "content.reply_to")
	if err != nil || s == "" {
		return err
	}
	if c.replyTo, err = parseAddress(s); err != nil {
		return invalid("content.reply_to", err.Error())
	}
	return nil
}

func (c *content) readAttachments(members map[string]json.RawMessage) error {
	raw, ok := members["attachments"]
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return invalid("content.attachments", "it must be a list of objects with name, type and data")
	}
	if len(list) > maxAttachments {
		return invalid("content.attachments", fmt.Sprintf("there are more than %d; send fewer", maxAttachments))
	}
	for i, item := range list {
		a, err := readAttachment(item, fmt.Sprintf("content.attachments[%d]", i))
		if err != nil {
			return err
		}
		c.attachments = append(c.attachments, a)
	}
	return nil
}

func readAttachment(raw json.RawMessage, field string) (a attachment, err error) {
	members, err := object(raw, field, "name", "type", "data")
	if err != nil {
		return a, err
	}
	if a.name, err = text(members, "name", field+".name"); err != nil {
		return a, err
	}
	if a.name == "" || !oneLine(a.name) || strings.ContainsAny(a.name, `"/\:*?<>|`) || utf8.RuneCountInString(a.name) > maxAttachmentName {
		return a, invalid(field+".name", fmt.Sprintf(`give a file name of at most %d characters, without a folder and without "/\:*?<>|`, maxAttachmentName))
	}
	if a.mediaType, err = text(members, "type", field+".type"); err != nil {
		return a, err
	}
	if !isMediaType(a.mediaType) {
		return a, invalid(field+".type", "give a media type without parameters, as in application/pdf; multipart and message are not taken")
	}
	var data *string
	if err := json.Unmarshal(members["data"], &data); err != nil || data == nil || strings.ContainsAny(*data, "\r\n") {
		return a, invalid(field+".data", "give the bytes in base64 with padding, without line breaks")
	}
	if a.data, err = base64.StdEncoding.DecodeString(*data); err != nil {
		return a, invalid(field+".data", "give the bytes in base64 with padding, without line breaks")
	}
	return a, nil
}

func isMediaType(s string) bool {
	kind, sub, _ := strings.Cut(s, "/")
	if len(s) > maxMediaType || sub == "" || !isAlnum(sub[0]) {
		return false
	}
	for i := range len(sub) {
		if !isAlnum(sub[i]) && !bytes.ContainsRune([]byte("!#$&^_.+-"), rune(sub[i])) {
			return false
		}
	}
	return slices.Contains([]string{"application", "audio", "font", "image", "model", "text", "video"}, kind)
}

// oneLine: no control character of either range, and no line or paragraph separator.
func oneLine(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029
	})
}
