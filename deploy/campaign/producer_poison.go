package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/onebell/onebell/dispatch/wire"
)

// poison is a message that no good producer sends. Its text is how it is counted.
type poison string

// Poisons. Each has to end as a refusal that names its place in the stream, and none may hold up the others.
const (
	notJSON      poison = "F17 no JSON"
	notUTF8      poison = "F17 no UTF-8"
	twoMembers   poison = "F17 a member twice"
	alienMember  poison = "F17 another schema's member"
	forgedCaller poison = "F17 a caller in the payload"
	wrongTypes   poison = "F17 members of wrong types"
	deepJSON     poison = "F17 JSON nested deeply"
	megabyte     poison = "F17 a payload of a megabyte"
	badKey       poison = "F17 an address as key"
	badContent   poison = "F17 content that no channel takes"
	noChannel    poison = "F17 a channel that does not exist"
	badSubject   poison = "F17 a subject of another shape"
	scheduled    poison = "F17 a header that schedules"
	future       poison = "F17 a fact of tomorrow"
)

var poisons = []poison{
	notJSON, notUTF8, twoMembers, alienMember, forgedCaller, wrongTypes, deepJSON, megabyte, badKey, badContent, noChannel, badSubject,
	scheduled, future,
}

// brew makes the message from a telling that would be well-formed.
func (t telling) brew() (*nats.Msg, error) {
	payload, err := t.request.Encode()
	if err != nil {
		return nil, err
	}
	msg := &nats.Msg{Subject: wire.RequestSubject(t.of.caller, t.of.channel), Data: payload, Header: nats.Header{}}
	replace := func(old, by string) { msg.Data = bytes.Replace(payload, []byte(old), []byte(by), 1) }
	switch t.poison {
	case notJSON:
		msg.Data = append(payload, "}}"...)
	case notUTF8:
		replace(`"key":"`, "\"key\":\"\xff")
	case twoMembers:
		replace(`{`, `{"revision":0,"revision":0,`)
	case alienMember:
		replace(`{`, `{"schema_version":99,`)
	case forgedCaller:
		replace(`{`, `{"caller":"depot",`)
	case wrongTypes:
		replace(`"recipient":"`, `"recipient":7,"labels":"`)
	case deepJSON:
		replace(`"content":{`, `"content":{"deep":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`,`)
	case megabyte:
		replace(`"content":{`, `"content":{"more":"`+strings.Repeat("x", 1<<20)+`",`)
	case badKey:
		replace(`"key":"`, `"key":"ada@`)
	case badContent:
		replace(`"content":{`, `"content":{"colour":"blue",`)
	case noChannel:
		msg.Subject = wire.RequestSubject(t.of.caller, "pigeon")
	case badSubject:
		msg.Subject += ".more"
	case scheduled:
		msg.Header["nats-schedule-target"] = []string{"elsewhere"} // the broker acts on the canonical spelling alone
	case future:
		replace(`"occurred_at":"2`, `"occurred_at":"3`)
	case "": // a header bomb
		for i := range 2000 {
			msg.Header[fmt.Sprintf("X-Bomb-%d", i)] = []string{strings.Repeat("b", 100)}
		}
	}
	return msg, nil
}
