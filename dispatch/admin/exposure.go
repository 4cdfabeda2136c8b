package admin

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// ErrExposed is returned by CheckExposure for an address that other machines may reach without a token.
var ErrExposed = errors.New("the admin API would be open to other machines: set ONEBELL_ADMIN_TOKENS_FILE, or listen on 127.0.0.1 (ONEBELL_ADMIN_ADDR)")

// CheckExposure says whether the admin API may listen on addr (host:port) with these tokens. Without tokens (nil) only a
// loopback address will do: there the machine's own users are trusted.
func CheckExposure(addr string, tokens *Tokens) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return errors.New("the admin address must be host:port, as in 127.0.0.1:8080 (ONEBELL_ADMIN_ADDR)")
	}
	if tokens == nil && !loopback(addr) {
		return ErrExposed
	}
	return nil
}

// loopback reports whether a listener's address, or a Host header, names this machine and nothing else. The port is optional.
func loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
