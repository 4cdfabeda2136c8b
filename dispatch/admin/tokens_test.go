package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sum(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}

// writeTokens replaces a tokens file the way editors do: a new file under the old name.
func writeTokens(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestBadTokensFileIsNamedByLineWithoutItsContent(t *testing.T) {
	good := "ann operator * " + sum("t0") + "\n"
	for name, c := range map[string]struct{ file, want string }{
		"too few words":   {good + "bob viewer " + sum("t1") + "\n", "line 2 must have four words"},
		"too many words":  {"bob viewer * " + sum("t1") + " s3cret\n", "line 1 must have four words"},
		"role":            {"# people\n\n" + good + "s3cret root * " + sum("t1") + "\n", "line 4 names an unknown role"},
		"name":            {"s3cret@x viewer * " + sum("t1") + "\n", "line 1 begins with a name"},
		"caller":          {"bob viewer S3cret " + sum("t1") + "\n", "line 1 must name a caller"},
		"token itself":    {"bob viewer * s3cret\n", "line 1 must end with the token's SHA-256"},
		"short hash":      {"bob viewer * " + sum("t1")[:62] + "\n", "line 1 must end with the token's SHA-256"},
		"same token":      {good + "bob viewer * " + sum("t0") + "\n", "line 2 has the token of line 1"},
		"no token at all": {"# nobody yet\n", "holds no token"},
		"binary":          {"\x00\x01\x02", "line 1 must have four words"},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		writeTokens(t, path, c.file)
		_, err := OpenTokens(path)
		switch {
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case strings.Contains(strings.ToLower(err.Error()), "s3cret"), strings.Contains(err.Error(), sum("t1")[:16]):
			t.Errorf("%s: the error repeats the line: %v", name, err)
		}
	}
	if _, err := OpenTokens(filepath.Join(t.TempDir(), "absent")); err == nil || strings.Contains(err.Error(), os.TempDir()) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTokensFileIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	writeTokens(t, path, "ann viewer * "+sum("old")+"\n")
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	want := func(token string, known bool) {
		t.Helper()
		if _, ok := tokens.identify(token); ok != known {
			t.Errorf("token %s is known: %v, want %v", token, ok, known)
		}
	}
	want("old", true)
	want("", false)

	writeTokens(t, path, "ann viewer * "+sum("old")+"\nann viewer * "+sum("new")+"\n") // rotation: both hold
	want("old", true)
	want("new", true)

	writeTokens(t, path, "ann admin * "+sum("new")+"\n")
	want("old", false)
	if p, _ := tokens.identify("new"); p.Role != Admin {
		t.Errorf("the new role is %q", p.Role)
	}

	writeTokens(t, path, "broken\n") // the last good one holds, and the fault is told
	want("new", true)
	if err := tokens.Refresh(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("the fault of the file in place: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("new", true)
	if tokens.Refresh() == nil {
		t.Error("a removed file is not told")
	}

	writeTokens(t, path, "ann viewer * "+sum("back")+"\n")
	want("back", true)
	want("new", false)
	if err := tokens.Refresh(); err != nil {
		t.Errorf("after mending: %v", err)
	}
}

// A change in place, of the same size: told by its time alone.
func TestTokensFileEditedInPlaceIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(token string, minute int) {
		t.Helper()
		if err := os.WriteFile(path, []byte("ann viewer * "+sum(token)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Date(2026, 11, 30, 10, minute, 0, 0, time.UTC)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	write("one", 0)
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	write("two", 1)
	if _, ok := tokens.identify("two"); !ok {
		t.Error("the new token is not known")
	}
	if _, ok := tokens.identify("one"); ok {
		t.Error("the old token is still known")
	}
}

func TestPrincipalSeesItsCallerAlone(t *testing.T) {
	for _, c := range []struct {
		who    Principal
		caller string
		sees   bool
	}{
		{Principal{}, "shop", false},
		{Principal{}, "", false},
		{Principal{Role: Viewer, Caller: "shop"}, "shop", true},
		{Principal{Role: Viewer, Caller: "shop"}, "shopping", false},
		{Principal{Role: Admin, Caller: "shop"}, "other", false},
		{Principal{Role: Viewer, Caller: everyCaller}, "shop", true},
		{Principal{Role: "root", Caller: everyCaller}, "shop", false},
		{Principal{Role: Viewer, Caller: "shop"}, "", false}, // what could not even be read has no caller
		{Principal{Role: Viewer, Caller: everyCaller}, "", true},
	} {
		if got := c.who.Sees(c.caller); got != c.sees {
			t.Errorf("%+v sees %q: %v", c.who, c.caller, got)
		}
	}
}

func TestExposureNeedsTokensBeyondLoopback(t *testing.T) {
	for addr, open := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:1": true, "[::1]:8080": true, "localhost:8080": true, "LocalHost.:8080": true, "[::ffff:127.0.0.1]:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:8080": false, "localhost.example.org:8080": false, "127.0.0.1.example.org:80": false,
	} {
		if err := CheckExposure(addr, nil); (err == nil) != open {
			t.Errorf("%s without tokens: %v", addr, err)
		}
		if err := CheckExposure(addr, &Tokens{}); err != nil {
			t.Errorf("%s with tokens: %v", addr, err)
		}
	}
	if CheckExposure("8080", &Tokens{}) == nil {
		t.Error("an address without a port is taken")
	}
}
