package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

func TestClientAsksByKey(t *testing.T) {
	h := newHouse(t)
	h.admit(intenttest.Ask("receipt:1", 0))
	h.admit(intenttest.Ask("receipt:1", 1))
	c, err := admin.NewClient(h.url+"/", tokenShop, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.StatusByKey(t.Context(), "", "mail", "receipt:1", nil)
	if err != nil || len(got) != 2 || got[0].Revision != 1 || got[1].State != string(intents.SupersededState) || got[1].Explain.Next == "" {
		t.Errorf("%+v, %v", got, err)
	}
	zero := int32(0)
	if got, err := c.StatusByKey(t.Context(), "shop", "mail", "receipt:1", &zero); err != nil || len(got) != 1 || got[0].Revision != 0 {
		t.Errorf("revision 0: %+v, %v", got, err)
	}
	if got, err := c.StatusByKey(t.Context(), "other", "mail", "receipt:1", nil); err != nil || len(got) != 0 {
		t.Errorf("another caller's: %+v, %v", got, err)
	}
	page, err := c.Intents(t.Context(), admin.Query{Recipient: "ada@example.org", State: "pending", Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour), Limit: 1})
	if err != nil || len(page.Intents) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if list, err := c.Channels(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if st, err := c.Stats(t.Context(), time.Now().Add(-time.Hour)); err != nil || len(st.Channels) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := c.Refusals(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func TestClientSaysWhatIsWrong(t *testing.T) {
	h := newHouse(t)
	c, err := admin.NewClient(h.url, "nobody", nil)
	if err != nil {
		t.Fatal(err)
	}
	var p *admin.Problem
	if _, err := c.Channels(t.Context()); !errors.As(err, &p) || p.Status != http.StatusUnauthorized || !strings.Contains(err.Error(), "ONEBELL_ADMIN_TOKENS_FILE") {
		t.Errorf("a wrong token: %v", err)
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			http.Redirect(w, r, h.url+"/v1/stats", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	c, err = admin.NewClient(page.URL, tokenAdmin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Channels(t.Context()); err == nil || !strings.Contains(err.Error(), "is that onebell's admin address") {
		t.Errorf("another server's page: %v", err)
	}
	if _, err := c.Stats(t.Context(), time.Time{}); err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("a redirect must not be followed: %v", err)
	}
	page.Close()
	if _, err := c.Intents(t.Context(), admin.Query{Recipient: "ada.lovelace@example.org"}); err == nil || strings.Contains(err.Error(), "lovelace") || !strings.Contains(err.Error(), page.URL) {
		t.Errorf("nobody listens: %v", err)
	}
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://x", "http://user:s3cret@x", "http://%zz"} {
		if _, err := admin.NewClient(base, "", nil); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the address %q: %v", base, err)
		}
	}
}
