package admin

import (
	"net/http"
	"strings"
	"testing"
)

func TestQueriesAreReadStrictly(t *testing.T) {
	known := []string{"caller", "channel", "key", "state", "recipient", "limit"}
	for query, want := range map[string]string{
		"":                               "",
		"key=receipt-mail:1&limit=5":     "",
		"state=":                         "",
		"Key=x":                          "query.Key: there is no such parameter; the nearest is key",
		"chanel=mail":                    "query.chanel: there is no such parameter; the nearest is channel",
		"recipent=ada@example.org":       "query.recipent: there is no such parameter; the nearest is recipient",
		"key=a:1&key=b:2":                "query.key: it is given more than once",
		"key=a%00b":                      "query.key: it holds invalid UTF-8 or a control character", // B1
		"key=%C3%28":                     "query.key: it holds invalid UTF-8",                        // B1
		"recipient=%1b[31mada":           "query.recipient: it holds invalid UTF-8 or a control character",
		"ada@example.org=1":              "query.?: there is no such parameter",
		"key=%zz":                        "The query cannot be read",
		"key=a;limit=1":                  "The query cannot be read",
		strings.Repeat("x", 5000) + "=1": "query.?: there is no such parameter",
	} {
		p := checkQuery(query, known)
		switch {
		case want == "" && p != nil:
			t.Errorf("%q: %v", query, p)
		case want != "" && (p == nil || !strings.Contains(p.Error(), want)):
			t.Errorf("%.60q: %v, want %q", query, p, want)
		case p != nil && strings.Contains(p.Error(), "ada"):
			t.Errorf("%q: the problem repeats what it was given: %v", query, p)
		case p != nil && p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusBadRequest:
			t.Errorf("%q: status %d", query, p.Status)
		}
	}
	if p := checkQuery("since=1", nil); p == nil || !strings.Contains(p.Error(), "takes no parameters") {
		t.Errorf("a route without parameters: %v", p)
	}
}
