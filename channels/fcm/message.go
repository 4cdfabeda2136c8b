package fcm

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"firebase.google.com/go/v4/messaging"

	"github.com/onebell/onebell/channels"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a request's content. Validate holds the same rules.
func Schema() json.RawMessage { return bytes.Clone(schema) }

// Limits. FCM's own is the one of the payload, keys and values together
// (https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode, "Message too big").
const (
	maxPayload      = 4096
	maxTopicPayload = 2048
	maxContent      = 24 << 10 // bytes of JSON: room for a payload of which every letter is escaped
	maxToken        = 4096
	maxTopic        = 900
	maxBadge        = 99999
)

// target is whom a message goes to; one of the two is set.
type target struct{ token, topic string }

const topicPrefix = "topic:"

var (
	tokenForm = regexp.MustCompile(`^[A-Za-z0-9_:.~%-]+$`)
	topicForm = regexp.MustCompile(`^[A-Za-z0-9_.~%-]+$`) // https://firebase.google.com/docs/cloud-messaging/manage-topics
	soundForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
)

func parseTarget(recipient string) (target, error) {
	bad := func(message string) (target, error) {
		return target{}, refuse(channels.CodeRecipientInvalid, "recipient", message)
	}
	if name, ok := strings.CutPrefix(recipient, topicPrefix); ok {
		if len(name) > maxTopic || !topicForm.MatchString(name) {
			return bad(fmt.Sprintf("a topic's name is 1 to %d letters, digits and -_.~%%, as in topic:news", maxTopic))
		}
		return target{topic: name}, nil
	}
	if len(recipient) < 8 || len(recipient) > maxToken || !tokenForm.MatchString(recipient) {
		return bad("give the registration token as the app got it, without blanks or line ends, or topic: and a topic's name")
	}
	return target{token: recipient}, nil
}

// content is a notification as the producer gave it, checked.
type content struct {
	title, body, image, url, sound string
	data                           map[string]string
	badge                          *int
}

// parseContent reads a content by the schema's rules, and the limits that the target has. Member names are compared exactly,
// which encoding/json's structs do not. The error is a *channels.Refusal.
func parseContent(raw json.RawMessage, to target) (content, error) {
	var c content
	if len(raw) > maxContent {
		return c, refuse(channels.CodeContentTooLarge, "content", fmt.Sprintf("a push notification's content has at most %d bytes of JSON; send a reference in place of the thing", maxContent))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil || !utf8.Valid(raw) {
		return c, invalid("content", "give an object in UTF-8 with a title or a body")
	}
	for name, value := range members {
		if err := c.read(name, value); err != nil {
			return content{}, err
		}
	}
	if c.title == "" && c.body == "" {
		return c, invalid("content", "give a title or a body; what shows nothing cannot be replaced when it is repeated")
	}
	if c.url != "" {
		if _, twice := c.data["url"]; twice {
			return c, invalid("content.data", `apps find the url of the content under "url" in the data, so give one of the two`)
		}
		c.data = maps.Clone(c.data)
		if c.data == nil {
			c.data = map[string]string{}
		}
		c.data["url"] = c.url
	}
	return c, c.checkSize(to)
}

func (c *content) read(name string, raw json.RawMessage) error {
	field, err := "content."+name, error(nil)
	switch name {
	case "title":
		c.title, err = text(raw, field)
	case "body":
		c.body, err = text(raw, field)
	case "image":
		c.image, err = link(raw, field)
	case "url":
		c.url, err = link(raw, field)
	case "sound":
		if c.sound, err = text(raw, field); err == nil && !soundForm.MatchString(c.sound) {
			err = invalid(field, `give "default" or the name of a sound file in the app: 1 to 100 letters, digits and _.-`)
		}
	case "badge":
		c.badge, err = badge(raw, field)
	case "data":
		c.data, err = data(raw, field)
	default:
		err = invalid("content", `only title, body, image, url, data, badge and sound may stand in the content; move the other members into "data"`)
	}
	return err
}

func text(raw json.RawMessage, field string) (string, error) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil || *s == "" {
		return "", invalid(field, "give a string that is not empty, or leave the member out")
	}
	if strings.ContainsRune(*s, 0) {
		return "", invalid(field, "it holds a NUL character; remove it")
	}
	return *s, nil
}

// link reads an address that devices open: https alone, as the SDK and browsers demand it.
func link(raw json.RawMessage, field string) (string, error) {
	s, err := text(raw, field)
	if err != nil {
		return "", err
	}
	u, err := url.ParseRequestURI(s)
	if err != nil || !strings.HasPrefix(s, "https://") || u.Host == "" || u.User != nil || !plain(s) {
		return "", invalid(field, "give an absolute https address without user, blanks and letters outside ASCII; percent-encode them")
	}
	return s, nil
}

func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func badge(raw json.RawMessage, field string) (*int, error) {
	var f *float64 // 3.0 is an integer, in JSON Schema too
	if err := json.Unmarshal(raw, &f); err != nil || f == nil || *f != math.Trunc(*f) || *f < 0 || *f > maxBadge {
		return nil, invalid(field, fmt.Sprintf("give a whole number from 0 to %d", maxBadge))
	}
	n := int(*f)
	return &n, nil
}

// data reads the app's own pairs. FCM refuses from, message_type and names that begin with gcm or google, overwrites collapse_key
// (the address above), and Apple's payload has aps.
func data(raw json.RawMessage, field string) (map[string]string, error) {
	var pairs map[string]*string
	if err := json.Unmarshal(raw, &pairs); err != nil || pairs == nil {
		return nil, invalid(field, "give an object whose values are all strings")
	}
	out := make(map[string]string, len(pairs))
	for name, value := range pairs {
		switch {
		case value == nil:
			return nil, invalid(field, "give an object whose values are all strings")
		case name == "" || strings.ContainsRune(name, 0) || strings.ContainsRune(*value, 0):
			return nil, invalid(field, "it has an empty name or a NUL character; remove it")
		case slices.Contains([]string{"from", "message_type", "collapse_key", "aps"}, name), strings.HasPrefix(name, "gcm"), strings.HasPrefix(name, "google"):
			return nil, invalid(field, "the names from, message_type, collapse_key, aps and those that begin with gcm or google are FCM's and Apple's own; use another")
		}
		out[name] = *value
	}
	return out, nil
}

func (c *content) checkSize(to target) error {
	size := len(c.title) + len(c.body) + len(c.image) + len(c.sound)
	for name, value := range c.data {
		size += len(name) + len(value)
	}
	most := maxPayload
	if to.topic != "" {
		most = maxTopicPayload
	}
	if size > most {
		return refuse(channels.CodeContentTooLarge, "content", fmt.Sprintf("texts and data, names and values together, have %d bytes and may have %d; send a reference in place of the thing", size, most))
	}
	return nil
}

// render makes the body of the request, as every attempt sends it.
func render(m channels.Message) ([]byte, error) {
	to, err := parseTarget(m.Recipient)
	if err != nil {
		return nil, err
	}
	c, err := parseContent(m.Content, to)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]*messaging.Message{"message": {
		Token: to.token, Topic: to.topic, Data: c.data, Notification: &messaging.Notification{Title: c.title, Body: c.body, ImageURL: c.image},
		Android: c.android(m), APNS: c.apns(m), Webpush: c.webpush(m),
	}})
}

func (c *content) android(m channels.Message) *messaging.AndroidConfig {
	n := &messaging.AndroidNotification{Tag: m.CollapseKey, Sound: c.sound}
	if c.badge != nil && *c.badge > 0 {
		n.NotificationCount = c.badge
	}
	a := &messaging.AndroidConfig{Notification: n}
	if m.CollapseGiven { // FCM keeps four of them per device: never one per fact
		a.CollapseKey = m.CollapseKey
	}
	return a
}

func (c *content) apns(m channels.Message) *messaging.APNSConfig {
	a := &messaging.APNSConfig{Payload: &messaging.APNSPayload{Aps: &messaging.Aps{Badge: c.badge, Sound: c.sound}}}
	if m.CollapseKey != "" {
		a.Headers = map[string]string{"apns-collapse-id": m.CollapseKey}
	}
	if c.image != "" { // https://firebase.google.com/docs/cloud-messaging/ios/send-image
		a.Payload.Aps.MutableContent, a.FCMOptions = true, &messaging.APNSFCMOptions{ImageURL: c.image}
	}
	return a
}

func (c *content) webpush(m channels.Message) *messaging.WebpushConfig {
	w := &messaging.WebpushConfig{}
	if m.CollapseKey != "" {
		w.Headers = map[string]string{"Topic": m.CollapseKey}
		w.Notification = &messaging.WebpushNotification{Tag: m.CollapseKey}
	}
	if c.url != "" {
		w.FCMOptions = &messaging.WebpushFCMOptions{Link: c.url}
	}
	return w
}

func invalid(field, message string) *channels.Refusal {
	return refuse(channels.CodeContentInvalid, field, message)
}

func refuse(code, field, message string) *channels.Refusal {
	return &channels.Refusal{Code: code, Field: field, Message: message}
}
