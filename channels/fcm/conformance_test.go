package fcm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
)

// peer is the HTTP peer, with recipients where FCM has them.
type peer struct{ *channeltest.HTTPPeer }

func (p peer) Arrivals() []channeltest.Arrival {
	list := p.HTTPPeer.Arrivals()
	for i, a := range list {
		var body struct {
			Message struct{ Token, Topic string } `json:"message"`
		}
		_ = json.Unmarshal(a.Body, &body) // a body that is none has no recipient
		list[i].Recipient = body.Message.Token
	}
	return list
}

func TestConformance(t *testing.T) {
	for name, plain := range map[string]bool{"TLS": false, "plain": true} {
		t.Run(name, func(t *testing.T) { channeltest.Run(t, kit(plain)) })
	}
}

func kit(plain bool) channeltest.Kit {
	k := channeltest.Kit{
		New: func(t *testing.T, env channeltest.Env) channeltest.Subject {
			r := newRig(t, channeltest.HTTPOptions{
				Fault: env.Fault, Skip: env.Skip, TLS: !plain, Header: http.Header{"Retry-After": {"7"}},
			}, channeltest.HTTPOptions{}, env.Timeout)
			return channeltest.Subject{
				Channel: r.Channel, Peer: peer{r.fcm},
				Recipient: func(i int) string { return fmt.Sprintf("canary-device-%06d:APA91b", i) },
				Canaries:  []string{"canary-device", accessToken, r.fcm.Addr(), r.token.Addr(), "PRIVATE KEY", "iam.gserviceaccount.com"},
			}
		},
		Cases:     cases(plain),
		EffectKey: func(i int) string { return fmt.Sprintf("c5a3e1f0-0000-8000-8000-%012d", i) },
		Content: func(i int) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"title":"Your parcel","body":%q,"data":{"order":"8841"},"badge":1}`, channeltest.Marker(i)))
		},
		Bad: badInputs(),
	}
	if plain {
		k.Exempt = map[channeltest.Fault]string{
			channeltest.FaultHandshake: "plain HTTP has no handshake", channeltest.FaultStall: "plain HTTP has no handshake",
		}
	}
	return k
}

// withoutReply is what an attempt says that no reply came to (providers.md section 1).
func withoutReply(plain bool) []channeltest.Case {
	connect, committed := []channels.Phase{channels.PhaseConnect}, []channels.Phase{channels.PhaseCommitted}
	// whether the close is seen before or after the request is written is a matter of time
	closing := channeltest.Case{
		Fault: channeltest.FaultCloseBefore, Result: channels.Unknown, Or: []channels.Result{channels.NotSent},
		Phases: []channels.Phase{channels.PhaseConnect, channels.PhaseRequest, channels.PhaseCommitted},
	}
	list := []channeltest.Case{
		closing,
		{Fault: channeltest.FaultDialRefused, Result: channels.NotSent, Phases: connect, Code: channels.HTTPDial},
		{Fault: channeltest.FaultCloseMid, Result: channels.Unknown, Phases: committed, Code: channels.HTTPLost},
		{Fault: channeltest.FaultCloseAfter, Result: channels.Unknown, Phases: committed, Code: channels.HTTPLost, Arrivals: 1},
		{Fault: channeltest.FaultResetAfter, Result: channels.Unknown, Phases: committed, Code: channels.HTTPLost, Arrivals: 1},
		{Fault: channeltest.FaultSilence, Result: channels.Unknown, Phases: committed, Code: channels.HTTPTimeout, Arrivals: 1},
		{Fault: channeltest.FaultTruncated, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultGarbage, Result: channels.Unknown, Phases: committed, Code: channels.HTTPMalformed, Arrivals: 1},
		{Fault: channeltest.FaultHeaderFlood, Result: channels.Unknown, Phases: committed, Code: channels.HTTPMalformed, Arrivals: 1},
		{Fault: channeltest.FaultCloseAfter, Warm: true, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultResetAfter, Warm: true, Result: channels.Unknown, Phases: committed, Arrivals: 1},
		{Fault: channeltest.FaultSilence, Warm: true, Result: channels.Unknown, Phases: committed, Code: channels.HTTPTimeout, Arrivals: 1},
	}
	closing.Warm = true
	list = append(list, closing)
	if !plain {
		list = append(list,
			channeltest.Case{Fault: channeltest.FaultHandshake, Result: channels.NotSent, Phases: connect, Code: channels.HTTPTLS},
			channeltest.Case{Fault: channeltest.FaultStall, Result: channels.NotSent, Phases: connect, Code: channels.HTTPTimeout})
	}
	return list
}

func cases(plain bool) []channeltest.Case {
	list, reply := withoutReply(plain), []channels.Phase{channels.PhaseReply}
	for _, f := range []channeltest.Fault{
		channeltest.FaultNone, channeltest.FaultBreakAfter, channeltest.FaultDrip, channeltest.FaultFlood, channeltest.FaultBomb,
	} {
		list = append(list, channeltest.Case{Fault: f, Result: channels.Accepted, Phases: reply, Code: "200", Arrivals: 1})
	}
	// What a status proves that came without FCM's own code: 4xx is about the address, the project or the account where it
	// can be, because a proxy or a wrong ENDPOINT answers so, and must not use up notifications.
	for result, statuses := range map[channels.Result][]int{
		channels.Accepted:      {201, 202, 204, 206},
		channels.Misconfigured: {300, 301, 302, 303, 304, 307, 308, 401, 403, 404, 405, 407},
		channels.Refused:       {400, 402, 410, 411, 413, 414, 415, 422, 431, 451},
		channels.Throttled:     {425, 429},
		channels.Unknown:       {408, 409, 499, 500, 501, 502, 503, 504, 599},
	} {
		for _, status := range statuses {
			list = append(list, channeltest.Case{
				Fault: channeltest.FaultStatus(status), Result: result, Phases: reply, Code: fmt.Sprint(status), Arrivals: 1,
			})
		}
	}
	return append(list, channeltest.Case{Fault: channeltest.FaultStatus(503), Warm: true, Result: channels.Unknown, Phases: reply, Code: "503", Arrivals: 1})
}

func badInputs() []channeltest.BadInput {
	recipient := func(name, to string) channeltest.BadInput {
		return channeltest.BadInput{Name: name, Recipient: to, Code: channels.CodeRecipientInvalid, Field: "recipient"}
	}
	content := func(name, field, text string) channeltest.BadInput {
		return channeltest.BadInput{Name: name, Content: json.RawMessage(text), Code: channels.CodeContentInvalid, Field: field}
	}
	large := func(name string, text string) channeltest.BadInput {
		return channeltest.BadInput{Name: name, Content: json.RawMessage(text), Code: channels.CodeContentTooLarge, Field: "content"}
	}
	return []channeltest.BadInput{
		recipient("W3 token with a line end", "canary-device-000001:APA91b\n"),
		recipient("W3 token with a blank", "canary-device 000001:APA91b"),
		recipient("token with a blank before it", " canary-device-000001:APA91b"),
		recipient("token in quotes", `"canary-device-000001:APA91b"`),
		recipient("token with a slash", "canary-device/000001"),
		recipient("token with a letter outside ASCII", "canary-device-é00001"),
		recipient("token with a zero-width blank", "canary-device\u200b-000001"),
		recipient("short token", "canary"),
		recipient("long token", strings.Repeat("a", 4097)),
		recipient("topic without a name", "topic:"),
		recipient("topic of the older API", "/topics/news-of-today"),
		recipient("topic with a slash", "topic:news/today"),
		recipient("topic with a blank", "topic:news today"),
		recipient("long topic", "topic:"+strings.Repeat("a", 901)),
		recipient("condition", "'news' in topics || 'sport' in topics"),
		content("no object", "content", `[]`),
		content("null", "content", `null`),
		content("no JSON", "content", `{"title":`),
		content("invalid UTF-8", "content", "{\"title\":\"a\xff\"}"),
		content("empty", "content", `{}`),
		content("data alone", "content", `{"data":{"order":"1"}}`),
		content("unknown member", "content", `{"title":"a","subtitle":"b"}`),
		content("case matters", "content", `{"Title":"a"}`),
		content("empty title", "content.title", `{"title":"","body":"b"}`),
		content("null title", "content.title", `{"title":null,"body":"b"}`),
		content("number as title", "content.title", `{"title":7}`),
		content("NUL in the body", "content.body", `{"body":"a\u0000b"}`),
		content("image over http", "content.image", `{"title":"a","image":"http://cdn.example/a.png"}`),
		content("relative image", "content.image", `{"title":"a","image":"/a.png"}`),
		content("url of an app", "content.url", `{"title":"a","url":"shop://orders/1"}`),
		content("script as url", "content.url", `{"title":"a","url":"javascript:alert(1)"}`),
		content("url with a password", "content.url", `{"title":"a","url":"https://u:p@shop.example/"}`),
		content("url with a blank", "content.url", `{"title":"a","url":"https://shop.example/a b"}`),
		content("url twice", "content.data", `{"title":"a","url":"https://shop.example/","data":{"url":"x"}}`),
		content("number in the data", "content.data", `{"title":"a","data":{"order":1}}`),
		content("null in the data", "content.data", `{"title":"a","data":{"order":null}}`),
		content("list as data", "content.data", `{"title":"a","data":["order"]}`),
		content("null data", "content.data", `{"title":"a","data":null}`),
		content("empty name in the data", "content.data", `{"title":"a","data":{"":"x"}}`),
		content("FCM's name: from", "content.data", `{"title":"a","data":{"from":"x"}}`),
		content("FCM's name: google.x", "content.data", `{"title":"a","data":{"google.x":"x"}}`),
		content("FCM's name: gcm", "content.data", `{"title":"a","data":{"gcm":"x"}}`),
		content("FCM's name: collapse_key", "content.data", `{"title":"a","data":{"collapse_key":"x"}}`),
		content("Apple's name", "content.data", `{"title":"a","data":{"aps":"x"}}`),
		content("negative badge", "content.badge", `{"title":"a","badge":-1}`),
		content("half a badge", "content.badge", `{"title":"a","badge":1.5}`),
		content("badge as a string", "content.badge", `{"title":"a","badge":"1"}`),
		content("huge badge", "content.badge", `{"title":"a","badge":100000}`),
		content("sound with a path", "content.sound", `{"title":"a","sound":"../bell.wav"}`),
		large("B3 data of 4097 bytes", `{"title":"t","data":{"k":"`+strings.Repeat("x", 4095)+`"}}`),
		large("B3 bytes, not letters", `{"body":"`+strings.Repeat("é", 2049)+`"}`),
		large("B3 JSON of 24 KiB", `{"title":"`+strings.Repeat("a", 24<<10)+`"}`),
	}
}
