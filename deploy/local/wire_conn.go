package local

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// conn is one client's connection and the one to the server that stands for it.
type conn struct {
	wire           *Wire
	client, server net.Conn
	fromClient     *bufio.Reader
	fromServer     *bufio.Reader

	// What the client prepared and bound, and what it sent since its transaction began: read by requests alone.
	statements map[string]string
	portals    map[string]string
	sent       []string

	mu      sync.Mutex
	asked   int              // how many groups the client has ended: each is answered by one ReadyForQuery
	faults  map[int]*WireHit // by the group whose reply they stop
	drained chan struct{}    // closed when the server has ended the connection
}

func newConn(w *Wire, client, server net.Conn) *conn {
	return &conn{
		wire: w, client: client, server: server, fromClient: bufio.NewReader(client), fromServer: bufio.NewReader(server),
		statements: map[string]string{}, portals: map[string]string{}, faults: map[int]*WireHit{}, drained: make(chan struct{}),
	}
}

// cut breaks both sides. An abrupt end towards the client (a reset, not an orderly close) is what a dead host gives.
func (c *conn) cut() {
	if tcp, ok := c.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.client.Close()
	_ = c.server.Close()
}

// hangUp tells the server that its client is gone and waits until it has rolled back and ended the connection.
func (c *conn) hangUp() {
	if tcp, ok := c.server.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_ = c.server.SetReadDeadline(time.Now().Add(time.Minute)) // a busy machine takes its time; a client that learnt of it earlier would find the old transaction open
	_, _ = io.Copy(io.Discard, c.fromServer)
}

// requests carries what the client says, until one side ends.
func (c *conn) requests() {
	defer func() { _ = c.server.Close() }()
	if !c.startup() {
		return
	}
	for {
		m, err := readMessage(c.fromClient, false)
		if err != nil {
			return
		}
		text, executes := c.note(m)
		if executes {
			if h := c.wire.take(func(marker, earlier string) bool { return c.matches(text, marker, earlier) }); h != nil && !c.apply(h) {
				return
			}
			if c.sent = append(c.sent, text); startsWith(text, "commit") || startsWith(text, "rollback") {
				c.sent = nil
			}
		}
		if _, err := c.server.Write(m.bytes()); err != nil {
			return
		}
		if m.kind == 'Q' || m.kind == 'S' {
			c.mu.Lock()
			c.asked++
			c.mu.Unlock()
		}
	}
}

// startup carries the first message; encryption is declined, so that the rest can be read.
func (c *conn) startup() bool {
	for {
		m, err := readMessage(c.fromClient, true)
		if err != nil || len(m.body) < 4 {
			return false
		}
		if code := binary.BigEndian.Uint32(m.body); code == sslRequest || code == gssRequest {
			if _, err := c.client.Write([]byte{'N'}); err != nil {
				return false
			}
			continue
		} else if _, err := c.server.Write(m.bytes()); err != nil || code == cancelRequest {
			<-c.drained // the server closes when it has taken the request; closing first could lose it
			return false
		}
		return true
	}
}

// note keeps track of what is prepared and bound, and says which statement's text the message runs, if it runs one.
func (c *conn) note(m message) (text string, executes bool) {
	switch m.kind {
	case 'P':
		name, rest := cString(m.body)
		c.statements[name], _ = cString(rest)
	case 'B':
		portal, rest := cString(m.body)
		name, _ := cString(rest)
		c.portals[portal] = c.statements[name]
	case 'E':
		portal, _ := cString(m.body)
		return c.portals[portal], true
	case 'Q':
		text, _ = cString(m.body)
		if startsWith(text, "begin") {
			c.sent = nil
		}
		return text, true
	}
	return "", false
}

func startsWith(text, word string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), word)
}

func cString(b []byte) (string, []byte) {
	s, rest, _ := bytes.Cut(b, []byte{0})
	return string(s), rest
}

func (c *conn) matches(text, marker, earlier string) bool {
	if !contains(text, marker) {
		return false
	}
	if earlier == "" {
		return true
	}
	for _, s := range c.sent {
		if contains(s, earlier) {
			return true
		}
	}
	return false
}

func contains(text, marker string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(marker))
}

// apply does a fault's part on the way to the server; false ends the connection.
func (c *conn) apply(h *WireHit) bool {
	switch h.fault {
	case LoseAnswer, HoldAnswer:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults[c.asked] = h
		return true
	case HoldStatement:
		close(h.done)
		return c.hold(h)
	default:
		_ = c.server.SetReadDeadline(time.Now()) // takes the reading side away from replies
		<-c.drained
		c.hangUp()
		c.cut()
		close(h.done)
		return false
	}
}

// hold waits for the release; false when the Wire was closed first.
func (c *conn) hold(h *WireHit) bool {
	select {
	case <-h.release:
		return true
	case <-c.wire.quit:
		return false
	}
}

// replies carries what the server says, until one side ends.
func (c *conn) replies() {
	defer close(c.drained)
	group, first := -1, true // the greeting is a group of its own, before the client's first
	failed := false
	var kept []byte
	for {
		m, err := readMessage(c.fromServer, false)
		if err != nil {
			c.endReplies(err)
			return
		}
		if first { // authentication ends with the first ReadyForQuery
			first = m.kind != 'Z'
		}
		failed = failed || m.kind == 'E'
		h := c.fault(group)
		if h == nil {
			if _, err := c.client.Write(m.bytes()); err != nil {
				_ = c.server.Close()
				return
			}
		} else {
			kept = append(kept, m.bytes()...)
		}
		if m.kind != 'Z' {
			continue
		}
		if h != nil && !c.stopReply(h, failed, kept) {
			return
		}
		group, failed, kept = group+1, false, nil
	}
}

// fault is the one that stops the reply to the group, if any.
func (c *conn) fault(group int) *WireHit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults[group]
}

// stopReply has the whole answer of a group in hand; false ends the connection.
func (c *conn) stopReply(h *WireHit, failed bool, kept []byte) bool {
	h.failed = failed
	if h.fault == LoseAnswer {
		c.hangUp() // an open transaction is rolled back before the client learns that the connection is gone
		c.cut()
		close(h.done)
		return false
	}
	close(h.done)
	if !c.hold(h) {
		return false
	}
	_, err := c.client.Write(kept)
	return err == nil
}

// endReplies passes the server's end on to the client, unless requests has asked for the reading side.
func (c *conn) endReplies(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	_ = c.client.Close()
}
