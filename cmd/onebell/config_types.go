package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The types below read one value each. They exist because envconfig's own parsing is too lenient for a service (010 is 8, list
// items keep their blanks, set-but-empty passes) and quotes the value in its errors. Their errors name the reason alone.

var errEmpty = errors.New("is set but empty; give it a value or unset it")

// trimmed returns the value without the blanks around it, or why it cannot be any setting's value.
func trimmed(value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return "", errEmpty
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return "", errors.New("holds a control character; remove it")
	}
	return value, nil
}

// word is a plain string without blanks around it.
type word string

func (w *word) Decode(value string) error {
	value, err := trimmed(value)
	*w = word(value)
	return err
}

// count is a whole number in decimal, at least 1.
type count int

var decimal = regexp.MustCompile(`^[0-9]+$`)

func (c *count) Decode(value string) error {
	value, err := trimmed(value)
	switch {
	case err != nil:
		return err
	case !decimal.MatchString(value):
		return errors.New("is not a whole number; write it in digits, as in 16")
	case len(value) > 1 && value[0] == '0':
		return errors.New("has a leading zero, which some programs read as octal; write it without")
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return errors.New("is out of range; write a number from 1 to 2147483647")
	}
	*c = count(n)
	return nil
}

func (c count) String() string {
	if c == 0 {
		return ""
	}
	return strconv.Itoa(int(c))
}

// rate is a positive decimal number of events per second.
type rate float64

var decimalFraction = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?$`)

func (r *rate) Decode(value string) error {
	value, err := trimmed(value)
	if err != nil {
		return err
	}
	if !decimalFraction.MatchString(value) {
		return errors.New("is not a plain decimal number; write the events per second, as in 50 or 0.5")
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || f <= 0 {
		return errors.New("must be more than 0; unset it for no limit")
	}
	*r = rate(f)
	return nil
}

func (r rate) String() string {
	if r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// span is a positive duration.
type span time.Duration

var leadingZero = regexp.MustCompile(`(^|[^0-9.])0[0-9]`)

func (s *span) Decode(value string) error {
	value, err := trimmed(value)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return errors.New("is not a duration; write a number with a unit, as in 90s, 15m or 72h")
	}
	if leadingZero.MatchString(value) {
		return errors.New("has a leading zero, which some programs read as octal; write it without")
	}
	if d <= 0 {
		return errors.New("must be more than 0")
	}
	*s = span(d)
	return nil
}

func (s span) String() string {
	if s == 0 {
		return ""
	}
	return time.Duration(s).String()
}

// list is a comma-separated list of different words.
type list []string

func (l *list) Decode(value string) error {
	value, err := trimmed(value)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return errors.New("has an empty item; write the items with one comma between them")
		}
		if seen[item] {
			return errors.New("names an item twice; name each once")
		}
		seen[item] = true
		items = append(items, item)
	}
	*l = items
	return nil
}

func (l list) String() string { return strings.Join(l, ",") }

// hostPort is an address to listen on or to connect to.
type hostPort string

func (h *hostPort) Decode(value string) error {
	value, err := trimmed(value)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return errors.New("is not host:port; write it as in 127.0.0.1:8080 or [::1]:8080")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errors.New("has no port number from 0 to 65535 after its last colon")
	}
	*h = hostPort(value)
	return nil
}

// filePath is the path of a readable file.
type filePath string

func (p *filePath) Decode(value string) error {
	value, err := trimmed(value)
	if err != nil {
		return err
	}
	f, err := os.Open(value)
	if err != nil {
		return errors.New(fileReason(err))
	}
	*p = filePath(value)
	return f.Close()
}

// secret is a value that no log, error or listing shows. It comes from a variable or from the file that the variable's
// sibling in _FILE names.
type secret struct {
	value  string
	source string // where it came from, for the listing: "environment", "file", ""
}

func (s *secret) Decode(value string) error {
	if err := checkSecret(value); err != nil {
		return err
	}
	*s = secret{value: value, source: "environment"}
	return nil
}

func checkSecret(value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return errEmpty
	case strings.TrimSpace(value) != value:
		return errors.New("has blanks or line ends around it; remove them")
	case strings.ContainsRune(value, 0):
		return errors.New("holds a NUL character")
	}
	return nil
}

// String and the other formatters keep the value out of whatever prints a configuration.
func (s secret) String() string {
	if s.source == "" {
		return ""
	}
	return "(set by " + s.source + ")"
}

// GoString is String: %#v must not show the value either.
func (s secret) GoString() string { return s.String() }

// LogValue is String.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String.
func (s secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
