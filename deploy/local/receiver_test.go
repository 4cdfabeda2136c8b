package local

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func newReceiver(t *testing.T, script Script) *Receiver {
	t.Helper()
	r, err := NewReceiver(ReceiverOptions{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// call posts once, without the client's own repetition, and returns the status, 0 for a broken connection.
func call(t *testing.T, r *Receiver, path, key, body string) (status int, replayed bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+path, io.MultiReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true"
}

func applied(r *Receiver) int {
	n := 0
	for _, c := range r.Calls() {
		if c.Applied {
			n++
		}
	}
	return n
}

func TestReceiverAppliesAKeyOnce(t *testing.T) {
	r := newReceiver(t, nil)
	if status, replayed := call(t, r, "a", "k1", "x"); status != 200 || replayed {
		t.Errorf("first: %d, %v", status, replayed)
	}
	if status, replayed := call(t, r, "a", "k1", "x"); status != 200 || !replayed {
		t.Errorf("again: %d, %v", status, replayed)
	}
	if status, _ := call(t, r, "a", "k1", "y"); status != 422 {
		t.Errorf("the same key with another body: %d", status)
	}
	if status, _ := call(t, r, "a", "k2", "x"); status != 200 {
		t.Errorf("another key: %d", status)
	}
	if len(r.Calls()) != 4 || applied(r) != 2 {
		t.Errorf("%d calls, %d applied", len(r.Calls()), applied(r))
	}
	for range 2 {
		call(t, r, "a", "", "x")
	}
	if applied(r) != 4 {
		t.Errorf("calls without a key must each be applied: %d", applied(r))
	}
}

func TestReceiverFates(t *testing.T) {
	fates := map[string]Fate{"/taken": Take(), "/lost": LoseReply(), "/dropped": Drop(), "/refused": Answer(503, "later")}
	r := newReceiver(t, func(a Arrival) Fate { return fates[a.To] })
	for path, want := range map[string]struct{ status, calls, applied int }{
		"taken": {200, 1, 1}, "lost": {0, 1, 1}, "dropped": {0, 0, 0}, "refused": {503, 1, 0},
	} {
		calls, effects := len(r.Calls()), applied(r)
		if status, _ := call(t, r, path, "key-"+path, "x"); status != want.status {
			t.Errorf("%s: status %d", path, status)
		}
		if n := len(r.Calls()) - calls; n != want.calls {
			t.Errorf("%s: %d calls", path, n)
		}
		if n := applied(r) - effects; n != want.applied {
			t.Errorf("%s: %d applied", path, n)
		}
	}
}

func TestLostReplyThenTheSameKeyIsAppliedOnce(t *testing.T) {
	r := newReceiver(t, func(a Arrival) Fate {
		if a.N == 1 {
			return LoseReply()
		}
		return Take()
	})
	if status, _ := call(t, r, "a", "k", "x"); status != 0 {
		t.Errorf("the reply was not lost: %d", status)
	}
	if status, replayed := call(t, r, "a", "k", "x"); status != 200 || !replayed {
		t.Errorf("again: %d, %v", status, replayed)
	}
	if applied(r) != 1 {
		t.Errorf("applied %d times", applied(r))
	}
}

func TestReceiverShowsCallsAsText(t *testing.T) {
	r := newReceiver(t, nil)
	if got := get(t, r.URL()+"calls"); strings.TrimSpace(got) != "[]" {
		t.Errorf("none are listed as %q", got)
	}
	call(t, r, "%3Cscript%3E", "<b>", "<img src=x>")
	page := get(t, r.URL())
	for _, markup := range []string{"<script", "<b>", "<img"} {
		if strings.Contains(page, markup) {
			t.Errorf("the page holds %s", markup)
		}
	}
	if !strings.Contains(page, "&lt;img src=x&gt;") {
		t.Errorf("the body is missing: %s", page)
	}
	var listed []Call
	if err := json.Unmarshal([]byte(get(t, r.URL()+"calls")), &listed); err != nil || len(listed) != 1 || listed[0].Body != "<img src=x>" || listed[0].Key != "<b>" {
		t.Errorf("listed %+v, %v", listed, err)
	}
}

func TestReceiverRefusesEndlessBodies(t *testing.T) {
	r := newReceiver(t, nil)
	if status, _ := call(t, r, "a", "", strings.Repeat("x", maxBody+1)); status != 413 || len(r.Calls()) != 0 {
		t.Errorf("status %d, %d calls", status, len(r.Calls()))
	}
}
