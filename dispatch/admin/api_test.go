package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

func TestIntentHasTheMembersThatOthersRelyOn(t *testing.T) {
	h := newHouse(t)
	id := h.admit(intenttest.Ask("receipt-mail:8841", 2))[0]
	// interfaces.md, "Members of an intent", in its order.
	want := strings.Split("id caller channel key revision state guarantee generation recipient occurred_at created_at updated_at not_before expires_at next_attempt_at provider_id code message possible_duplicates", " ")
	slices.Sort(want)
	list := read[struct{ Intents []map[string]any }](h, "/v1/intents", tokenOperator)
	var got []string
	for name := range list.Intents[0] {
		got = append(got, name)
	}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	one := read[map[string]any](h, "/v1/intents/"+id.String(), tokenOperator)
	for _, name := range append(want, "attempts", "evidence", "timeline", "explain") {
		if _, ok := one[name]; !ok {
			t.Errorf("one intent lacks %s", name)
		}
	}
	for _, name := range []string{"occurred_at", "created_at", "next_attempt_at"} { // O5
		s, _ := one[name].(string)
		if _, err := time.Parse(time.RFC3339Nano, s); err != nil || !strings.HasSuffix(s, "Z") {
			t.Errorf("%s is %q, want RFC 3339 in UTC", name, s)
		}
	}
	if one["not_before"] != nil || one["expires_at"] != nil {
		t.Errorf("times that do not apply are %v and %v, want null", one["not_before"], one["expires_at"])
	}
}

func TestLifeOfAnUnknownMailIsToldWhole(t *testing.T) {
	h := newHouse(t)
	h.admit(intenttest.Ask("receipt-mail:8841", 0))
	id := h.send("mail", intenttest.Parked)
	late := channels.OutcomeNotSent(channels.PhaseConnect, "dial", "refused")
	settled, err := h.Witness(t.Context(), intents.Settlement{ID: id, Generation: 1, Owner: intenttest.Them, Transition: intents.Retry(late, 0, true), Outcome: late})
	if err != nil {
		t.Fatal(err)
	}
	got := read[admin.IntentDetail](h, "/v1/intents/"+id.String(), tokenOperator)
	if got.State != string(settled.State) || len(got.Attempts) != 1 || got.Attempts[0].Result != "unknown" || got.Attempts[0].Phase != "committed" || len(got.Evidence) != 1 {
		t.Errorf("%+v", got)
	}
	var kinds []string
	for _, e := range got.Timeline {
		kinds = append(kinds, e.Kind)
	}
	if d := cmp.Diff([]string{"admitted", "attempt", "evidence"}, kinds[:min(3, len(kinds))]); d != "" {
		t.Error(d)
	}
	if !strings.Contains(got.Explain.Guarantee, "duplicate-visible") || got.Explain.Happened == "" || got.Explain.Next == "" {
		t.Errorf("explain: %+v", got.Explain)
	}
}

func TestListFollowsItsFilters(t *testing.T) {
	h := newHouse(t)
	h.admit(intenttest.Ask("receipt:1", 0))
	sent := h.send("mail", intenttest.Succeeded)
	h.admit(intenttest.Ask("receipt:2", 0, of("other"), to("eve@example.org")))
	unknown := h.send("mail", intenttest.Parked)
	pending := h.admit(intenttest.Ask("receipt:3", 1, intenttest.On("hooks"), to("https://example.org/hook")))[0]
	all := []uuid.UUID{pending, unknown, sent}
	created := read[admin.IntentDetail](h, "/v1/intents/"+unknown.String(), tokenOperator).CreatedAt
	for query, want := range map[string][]uuid.UUID{
		"":              all,
		"caller=other":  {unknown},
		"channel=hooks": {pending},
		"key=receipt:1": {sent},
		"caller=other&channel=mail&key=receipt:2": {unknown},
		"caller=shop&channel=mail&key=receipt:2":  nil,
		"revision=1":                              {pending},
		"revision=0":                              {unknown, sent},
		"state=unknown":                           {unknown},
		"state=succeeded":                         {sent},
		"state=":                                  all,
		"recipient=" + url.QueryEscape("Eve@example.org"): {unknown},
		"provider_id=provider-7":                          {sent},
		"since=" + stamp(created):                         {pending, unknown},
		"until=" + stamp(created):                         {sent},
		"since=" + url.QueryEscape(created.In(time.FixedZone("", 7200)).Format(time.RFC3339Nano)) + "&limit=1": {pending}, // O5
	} {
		var got []uuid.UUID
		for _, i := range read[admin.IntentPage](h, "/v1/intents?"+query, tokenAdmin).Intents {
			got = append(got, uuid.MustParse(i.ID))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
}

func stamp(t time.Time) string { return url.QueryEscape(t.UTC().Format(time.RFC3339Nano)) }

func TestCursorIsStableWhileRequestsArrive(t *testing.T) {
	h := newHouse(t)
	var want []string
	for i := range 7 {
		want = append(want, h.admit(intenttest.Ask(fmt.Sprint("receipt:", i), 0))[0].String())
	}
	slices.Reverse(want)
	var got []string
	path := "/v1/intents?limit=3"
	for n := 0; path != ""; n++ {
		page := read[admin.IntentPage](h, path, tokenViewer)
		for _, i := range page.Intents {
			got = append(got, i.ID)
		}
		h.admit(intenttest.Ask(fmt.Sprint("late:", n), 0))
		h.send("mail", intenttest.Succeeded) // a row that was listed, or is yet to be, changes
		if path = ""; page.NextCursor != "" {
			path = "/v1/intents?limit=3&cursor=" + page.NextCursor
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestWrongParametersAreNamed(t *testing.T) {
	h := newHouse(t)
	for path, want := range map[string]string{
		"/v1/intents?limit=0":                   "query.limit",
		"/v1/intents?limit=501":                 "query.limit",
		"/v1/intents?limit=ten":                 "query.limit",
		"/v1/intents?revision=-1":               "query.revision",
		"/v1/intents?revision=2147483648":       "query.revision",
		"/v1/intents?revision=1.5":              "query.revision",
		"/v1/intents?state=done":                "query.state",
		"/v1/intents?since=2026-11-30T10:00:00": "query.since", // O5: no offset
		"/v1/intents?until=yesterday":           "query.until",
		"/v1/intents?since=2026-11-30T10:00:00Z&until=2026-11-30T10:00:00Z": "query.until",
		"/v1/intents?cursor=next":                 "query.cursor",
		"/v1/intents?caller=a.b":                  "query.caller",
		"/v1/intents?channel=a%20b":               "query.channel",
		"/v1/intents?key=ada@example.org":         "query.key",
		"/v1/intents?key=a%00b":                   "query.key",
		"/v1/intents?stat=unknown":                "query.stat",
		"/v1/intents?state=unknown&state=pending": "query.state",
		"/v1/intents/not-an-id":                   "path.id",
		"/v1/refusals?cursor=1_x":                 "query.cursor",
		"/v1/refusals?verdict=accepted":           "query.verdict",
		"/v1/stats?since=1h":                      "query.since",
		"/v1/channels?limit=1":                    "query",
	} {
		p := h.problem(path, tokenOperator, http.StatusUnprocessableEntity)
		if len(p.Errors) == 0 || p.Errors[0].Location != want || p.Errors[0].Message == "" {
			t.Errorf("%s: %+v, want the parameter %s named", path, p, want)
		}
		if strings.Contains(p.Error(), "ada@") {
			t.Errorf("%s: the problem repeats the value: %v", path, p)
		}
	}
	h.problem("/v1/intents?key=%zz", tokenOperator, http.StatusBadRequest)
	h.problem("/v1/intents/"+uuid.Must(uuid.NewV7()).String(), tokenOperator, http.StatusNotFound)
}

func TestRefusalsAreShownWithWhatStandsInTheWay(t *testing.T) {
	h := newHouse(t)
	standing := h.admit(intenttest.Ask("receipt:1", 0))[0]
	for i := range 3 {
		if err := h.Refuse(t.Context(), []intents.Refusal{{
			ID: uuid.Must(uuid.NewV7()), Verdict: intents.Conflict, Code: "conflict", Message: "m", Fields: []string{"recipient"}, Caller: "shop", Channel: "mail",
			Key: "receipt:1", Revision: int32(i), Intent: standing, Subject: "onebell.request.shop.mail", StreamSeq: uint64(i + 1),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	first := read[admin.RefusalPage](h, "/v1/refusals?limit=2&key=receipt:1", tokenViewer)
	second := read[admin.RefusalPage](h, "/v1/refusals?limit=2&key=receipt:1&cursor="+first.NextCursor, tokenViewer)
	var seqs []uint64
	for _, r := range append(first.Refusals, second.Refusals...) {
		seqs = append(seqs, r.StreamSeq)
		if *r.Intent != standing.String() || !slices.Equal(r.Fields, []string{"recipient"}) || r.Verdict != "conflict" {
			t.Errorf("%+v", r)
		}
	}
	if d := cmp.Diff([]uint64{3, 2, 1}, seqs); d != "" || second.NextCursor != "" {
		t.Errorf("%s, next %q", d, second.NextCursor)
	}
}

func TestChannelsShowContractAndPause(t *testing.T) {
	h := newHouse(t)
	if err := h.Pause(t.Context(), "mail", "scope", "535", "the server refused the login", time.Minute, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := h.Pause(t.Context(), "push", "scope", "401", "the key is not valid", time.Minute, time.Hour); err != nil { // O3: nobody here serves it
		t.Fatal(err)
	}
	got := map[string]admin.Channel{}
	for _, c := range read[admin.ChannelList](h, "/v1/channels", tokenViewer).Channels {
		got[c.Name] = c
	}
	mail, hooks, push := got["mail"], got["hooks"], got["push"]
	switch {
	case len(got) != 3:
		t.Errorf("%d channels", len(got))
	case !mail.Paused || mail.Pause.Code != "535" || mail.Pause.Reason == "" || mail.Pause.Until == nil || mail.Pause.Hint == "":
		t.Errorf("mail: %+v", mail.Pause)
	case mail.Type != "smtp" || mail.Contract.Guarantee != "duplicate-visible" || mail.Settings.MaxAge != "1h0m0s" || mail.Settings.Concurrency != 4:
		t.Errorf("mail: %+v %+v", mail.Contract, mail.Settings)
	case hooks.Paused || hooks.Pause != nil || hooks.Contract.KeyWindow != "24h0m0s" || hooks.Contract.KeyField != "Idempotency-Key":
		t.Errorf("hooks: %+v %+v", hooks, hooks.Contract)
	case push.Configured || !push.Paused || push.Contract != nil:
		t.Errorf("push: %+v", push)
	}
}

func TestStatsAreOfWhatTheTokenSees(t *testing.T) {
	h := newHouse(t)
	h.admit(intenttest.Ask("receipt:1", 0))
	h.send("mail", intenttest.Parked)
	h.admit(intenttest.Ask("receipt:2", 0, of("other"), intenttest.On("hooks")))
	for token, want := range map[string]map[string]int64{
		tokenViewer: {"mail/unknown": 1, "hooks/pending": 1}, tokenShop: {"mail/unknown": 1}, tokenOther: {"hooks/pending": 1},
	} {
		got := map[string]int64{}
		for _, c := range read[admin.Stats](h, "/v1/stats", token).Channels {
			for state, n := range c.ByState {
				if n > 0 {
					got[c.Channel+"/"+state] = n
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", token, d)
		}
	}
}

func TestReadinessSaysWhyNot(t *testing.T) {
	h := newHouse(t)
	if a := h.get("/readyz", ""); a.status != http.StatusOK {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	*h.ready = []string{"the broker is not connected"}
	a := h.get("/readyz", "")
	var health admin.Health
	if err := json.Unmarshal(a.body, &health); err != nil || a.status != http.StatusServiceUnavailable || !slices.Equal(health.Reasons, *h.ready) {
		t.Errorf("not ready: %d %s", a.status, a.body)
	}
	if a := h.get("/healthz", ""); a.status != http.StatusOK {
		t.Errorf("alive: %d %s", a.status, a.body)
	}
}
