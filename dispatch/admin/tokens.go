package admin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
)

// Role is what the holder of a token may do; each role includes the ones before it.
type Role string

// Roles.
const (
	Viewer   Role = "viewer"   // reads, with recipients masked
	Operator Role = "operator" // reads everything, and decides
	Admin    Role = "admin"    // changes channels and tokens, too
)

// rank orders roles; an unknown one may do nothing.
func (r Role) rank() int { return map[Role]int{Viewer: 1, Operator: 2, Admin: 3}[r] }

// Includes reports whether r may do what needs the role need.
func (r Role) Includes(need Role) bool { return r.rank() >= need.rank() && r.rank() > 0 }

// everyCaller is the scope of a token that sees all callers.
const everyCaller = "*"

// Principal is who asks. The zero value may do nothing and sees nobody.
type Principal struct {
	Name   string
	Role   Role
	Caller string // the one caller whose intents are seen; "*": all
}

// Sees reports whether the principal may know of that caller's intents.
func (p Principal) Sees(caller string) bool {
	return p.Role.Includes(Viewer) && (p.Caller == everyCaller || p.Caller != "" && p.Caller == caller)
}

// scope narrows a wish for one caller's rows, or for everybody's (""), to what the principal may see; visible is false if
// that is nothing.
func (p Principal) scope(caller string) (narrowed string, visible bool) {
	if caller == "" && p.Caller != everyCaller {
		caller = p.Caller
	}
	if caller == "" {
		return "", p.Role.Includes(Viewer)
	}
	return caller, p.Sees(caller)
}

// Tokens is a tokens file: one token a line, `name role caller-or-* sha256-of-token`, where the last is the hash of a random
// token (`openssl rand -hex 32`) in hexadecimal. Blank lines and lines that begin with # are skipped. Two lines may have one
// name, so that a token can be replaced without a gap. Safe for concurrent use.
type Tokens struct {
	path string

	mu      sync.Mutex
	seen    fs.FileInfo // of the file that was read last, well-formed or not
	entries []entry     // of the last well-formed file
	fault   error       // why the present file is not in use; nil if it is
}

type entry struct {
	principal Principal
	sum       [sha256.Size]byte
}

// maxTokensFile bounds a tokens file, in bytes.
const maxTokensFile = 1 << 20

// OpenTokens reads a tokens file. An error names the line that is wrong, never what stands in it.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.Refresh(); err != nil {
		return nil, err
	}
	return t, nil
}

// Refresh reads the file again if it changed. A file that is wrong is not used: the tokens read before stay valid, and the
// error is returned until the file is mended; /readyz reports it.
func (t *Tokens) Refresh() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refresh()
}

func (t *Tokens) refresh() error {
	info, err := os.Stat(t.path)
	if err != nil {
		t.seen, t.fault = nil, fmt.Errorf("tokens file: %w", withoutPath(err))
		return t.fault
	}
	if t.seen != nil && os.SameFile(t.seen, info) && t.seen.ModTime().Equal(info.ModTime()) && t.seen.Size() == info.Size() {
		return t.fault
	}
	t.seen = info
	entries, err := readTokens(t.path, info.Size())
	if t.fault = err; err == nil {
		t.entries = entries
	}
	return err
}

func readTokens(path string, size int64) ([]entry, error) {
	if size > maxTokensFile {
		return nil, errors.New("tokens file: larger than 1 MiB")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokens file: %w", withoutPath(err))
	}
	return parseTokens(data)
}

// identify returns the principal whose token that is. It compares with every entry, in a time that does not depend on where,
// or whether, one fits.
func (t *Tokens) identify(token string) (Principal, bool) {
	t.mu.Lock()
	_ = t.refresh() // the fault is kept, and reported by /readyz
	entries := t.entries
	t.mu.Unlock()
	sum := sha256.Sum256([]byte(token))
	var found Principal
	ok := false
	for _, e := range entries {
		if subtle.ConstantTimeCompare(e.sum[:], sum[:]) == 1 {
			found, ok = e.principal, true
		}
	}
	return found, ok
}

var (
	tokenName   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	tokenCaller = regexp.MustCompile(`^([a-z0-9_-]{1,64}|\*)$`)
)

func parseTokens(data []byte) ([]entry, error) {
	var out []entry
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxTokensFile+1)
	hashes := map[[sha256.Size]byte]int{}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, problem := parseToken(strings.Fields(line))
		if first, twice := hashes[e.sum]; problem == "" && twice {
			problem = fmt.Sprintf("has the token of line %d; draw another one", first)
		}
		if problem != "" {
			return nil, fmt.Errorf("tokens file: line %d %s", n, problem)
		}
		hashes[e.sum] = n
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil, errors.New("tokens file: holds no token; add a line `name role caller-or-* sha256-of-token`")
	}
	return out, lines.Err()
}

// parseToken reads the fields of one line; problem completes the sentence "line n …" and holds nothing of the line.
func parseToken(fields []string) (e entry, problem string) {
	if len(fields) != 4 {
		return e, "must have four words: name role caller-or-* sha256-of-token"
	}
	e.principal = Principal{Name: fields[0], Role: Role(fields[1]), Caller: fields[2]}
	sum, err := hex.DecodeString(fields[3])
	switch {
	case !tokenName.MatchString(fields[0]):
		return e, "begins with a name that is not 1 to 64 of letters, digits, '.', '_', '-'"
	case e.principal.Role.rank() == 0:
		return e, "names an unknown role; roles are viewer, operator, admin"
	case !tokenCaller.MatchString(fields[2]):
		return e, "must name a caller ([a-z0-9_-], up to 64) or * as its third word"
	case err != nil || len(sum) != sha256.Size:
		return e, "must end with the token's SHA-256 as 64 hexadecimal digits (printf %s TOKEN | sha256sum)"
	}
	e.sum = [sha256.Size]byte(sum)
	return e, ""
}

// withoutPath strips the path that os errors carry: the environment variable is what the reader knows.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
