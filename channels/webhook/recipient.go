package webhook

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/onebell/onebell/channels"
	"golang.org/x/net/idna"
)

const maxRecipient = 2048 // bytes of a URL, in normal form too

var (
	hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)
	// Resolvers read 127.1, 0x7f000001 and 2130706433 as addresses.
	numeric = regexp.MustCompile(`(^|\.)(0x[0-9a-f]*|[0-9]+)$`)
	// Names of machines in private networks have underscores, so that the strict rules of domain names are not asked for.
	profile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false))
)

// normalURL returns a receiver's URL in its normal form: scheme and host in lower case, the host in ASCII, the default port
// dropped, no empty path. What an address means is not judged by its name here but when it is dialled; what can be seen
// from the text alone is refused at once.
func normalURL(raw string, allow []netip.Prefix) (string, error) {
	bad := func(message string) (string, error) {
		return "", refuse(channels.CodeRecipientInvalid, "recipient", message)
	}
	if len(raw) > maxRecipient {
		return bad("a URL has at most " + strconv.Itoa(maxRecipient) + " bytes")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return bad("give an absolute https URL")
	case u.User != nil:
		return bad("leave user and password out of the URL; receivers know us by the signature")
	case strings.Contains(raw, "#"):
		return bad("leave the fragment (from # on) out of the URL; receivers never see it")
	case !graphic(u.RawQuery):
		return bad("percent-encode blanks, control characters and non-ASCII letters of the query")
	case u.Scheme == "http" && len(allow) == 0:
		return bad("give an https URL; plain http is for networks listed in ALLOW_PRIVATE")
	}
	host, literal, err := normalHost(u.Hostname())
	if err != nil {
		return bad("the URL's host is no valid name")
	}
	if literal.IsValid() && !channels.AllowedPrivate(allow, literal) {
		return bad("give a host name in place of an IP address; addresses are for networks listed in ALLOW_PRIVATE")
	}
	port, ok := normalPort(u)
	if !ok || len(allow) == 0 && port != "" && port != "8443" {
		return bad("use port 443 or 8443; other ports are for networks listed in ALLOW_PRIVATE")
	}
	normal := assemble(u, host, port)
	if len(normal) > maxRecipient {
		return bad("a URL has at most " + strconv.Itoa(maxRecipient) + " bytes after percent-encoding")
	}
	return normal, nil
}

var errHost = errors.New("no valid host")

// normalHost returns the host in ASCII and lower case, and the address that it writes, if it is one.
func normalHost(host string) (string, netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", netip.Addr{}, errHost
		}
		return a.Unmap().String(), a.Unmap(), nil
	}
	ascii, err := profile.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil {
		return "", netip.Addr{}, err
	}
	if a, err := netip.ParseAddr(ascii); err == nil { // full-width digits map to an address
		return a.String(), a, nil
	}
	ascii = strings.ToLower(ascii)
	// not every output is a valid input: broken UTF-8 maps to a name that decodes to a forbidden letter
	if again, err := profile.ToASCII(ascii); err != nil || again != ascii {
		return "", netip.Addr{}, errHost
	}
	if len(ascii) > 253 || !hostName.MatchString(ascii) || numeric.MatchString(ascii) {
		return "", netip.Addr{}, errHost
	}
	return ascii, netip.Addr{}, nil
}

// normalPort returns the port without leading zeros, "" for the scheme's own.
func normalPort(u *url.URL) (port string, ok bool) {
	if u.Port() == "" {
		return "", true
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		return "", false
	}
	if u.Scheme == "https" && n == 443 || u.Scheme == "http" && n == 80 {
		return "", true
	}
	return strconv.FormatUint(n, 10), true
}

func assemble(u *url.URL, host, port string) string {
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return u.Scheme + "://" + host + path
}

// graphic reports whether s can stand in a request line.
func graphic(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
