package channeltest

import (
	"fmt"
	"strings"
)

// Fault is what a peer does to an exchange.
type Fault string

// Faults that every type must have an answer to: a Case, or a reason in Kit.Exempt.
const (
	FaultNone        Fault = ""             // accepts, with a well-formed reply
	FaultDialRefused Fault = "dial-refused" // nobody listens
	FaultHandshake   Fault = "handshake"    // TLS (or the greeting) fails
	FaultStall       Fault = "stall"        // the connection is accepted, and then nothing: no handshake, no greeting
	FaultCloseBefore Fault = "close-before" // closes before it read anything of the request
	FaultCloseMid    Fault = "close-mid"    // closes when part of the request was read
	FaultCloseAfter  Fault = "close-after"  // reads the whole request, then closes without a reply
	FaultResetAfter  Fault = "reset-after"  // reads the whole request, then resets the connection
	FaultSilence     Fault = "silence"      // reads the whole request, and then nothing until the client goes
	FaultTruncated   Fault = "truncated"    // the reply breaks off before it says anything definite
	FaultGarbage     Fault = "garbage"      // the reply is not of this protocol
	FaultBreakAfter  Fault = "break-after"  // the reply accepts, and what should follow breaks off
	FaultDrip        Fault = "drip"         // the reply accepts, and what should follow drips until the client goes
	FaultFlood       Fault = "flood"        // the reply accepts, and what follows never ends
	FaultBomb        Fault = "bomb"         // the reply accepts, and its compressed body would unpack to 64 MiB
	FaultHeaderFlood Fault = "header-flood" // the head of the reply never ends
)

const statusPrefix = "status-"

// FaultStatus is a reply with that status: a well-formed one, whose text echoes what the peer was sent.
func FaultStatus(code int) Fault { return Fault(fmt.Sprintf("%s%d", statusPrefix, code)) }

// Status returns the code of a FaultStatus, 0 for other faults.
func (f Fault) Status() int {
	var code int
	if rest, ok := strings.CutPrefix(string(f), statusPrefix); ok {
		_, _ = fmt.Sscanf(rest, "%d", &code) // a fault that is no status keeps 0
	}
	return code
}

// Required returns the faults that a kit must have an answer to.
func Required() []Fault {
	return []Fault{
		FaultNone, FaultDialRefused, FaultHandshake, FaultStall, FaultCloseBefore, FaultCloseMid, FaultCloseAfter,
		FaultResetAfter, FaultSilence, FaultTruncated, FaultGarbage, FaultBreakAfter, FaultDrip, FaultFlood, FaultBomb,
		FaultHeaderFlood,
	}
}
