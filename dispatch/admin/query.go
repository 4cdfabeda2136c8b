package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// strictQuery refuses a query that would otherwise be answered as if it asked for less: an unknown or repeated parameter, or
// text that no stored text can equal.
func (s *server) strictQuery(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if p := checkQuery(r.URL.RawQuery, queryNames(ctx.Operation())); p != nil {
		p.write(w, r)
		return
	}
	next(ctx)
}

func queryNames(op *huma.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

// checkQuery returns what is wrong with a query, nil if nothing is.
func checkQuery(raw string, known []string) *Problem {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return problem(http.StatusBadRequest, "The query cannot be read.", "Write reserved characters as %XX; in times, + is %2B.")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		given := values[name]
		switch {
		case !slices.Contains(known, name):
			return unknownParameter(name, known)
		case len(given) > 1:
			return wrong("query."+name, "it is given more than once", "Give it once.")
		case !utf8.ValidString(given[0]) || strings.ContainsFunc(given[0], unicode.IsControl):
			return wrong("query."+name, "it holds invalid UTF-8 or a control character", "Send printable text in UTF-8.")
		}
	}
	return nil
}

func unknownParameter(name string, known []string) *Problem {
	if len(known) == 0 {
		return wrong("query", "this route takes no parameters", "Leave the query out.")
	}
	near := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if !plain(name) {
		name = "?" // it may hold anything, and is not to be repeated
	}
	return wrong("query."+name, "there is no such parameter; the nearest is "+near, "Parameters are: "+strings.Join(known, ", ")+".")
}

// plain reports whether a name can be repeated in an answer.
func plain(name string) bool {
	return len(name) <= 32 && !strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
}

// distance is Levenshtein's, of the first bytes.
func distance(a, b string) int {
	a, b = cut(strings.ToLower(a)), cut(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
