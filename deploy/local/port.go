package local

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// FreePort is a TCP port of 127.0.0.1 that nobody listened on a moment ago: the usual one where it is free, else any.
// usual 0 asks for any.
func FreePort(usual int) (int, error) {
	if usual != 0 && isFree(usual) {
		return usual, nil
	}
	// Below the range that the kernel hands to outgoing connections (32768 up on Linux): a server that is down for a
	// restart must not find its port taken by somebody's client socket.
	const low, high, tries = 15000, 32000, 100
	for range tries {
		if port := low + rand.IntN(high-low); isFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on %s between %d and %d", loopback, low, high)
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

func errTaken(port int) error {
	return fmt.Errorf("port %d on %s is taken; choose another one or stop what listens there", port, loopback)
}
