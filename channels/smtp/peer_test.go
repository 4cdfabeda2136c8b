package smtp

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// How a scripted step ends.
const (
	goOn    = ""
	closing = "close"
	reset   = "rst"
	silence = "silence"
)

// act is what the peer does in place of its good reply.
type act struct {
	reply string // written first, with CRLF; "" with goOn: the good reply
	end   string
}

// at is where the peer stands: the n-th occurrence (from 1) of a step in the conn-th connection (from 1). Steps are the commands
// and "greeting", "handshake", "body" (one line of it was read), "dot", "after" (the dot was answered).
type at struct {
	conn, n int
	step    string
	rcpt    string // the argument of the last RCPT
	dots    int    // mails that ended with a dot before, over all connections
}

// took is a message that ended with a dot.
type took struct {
	from, rcpt string
	body       []byte
	conn       int
	accepted   bool // it was not answered with 4xx or 5xx
}

// peer is a mail server on raw TCP that can do anything at any step.
type peer struct {
	addr string
	ext  []string // offered in EHLO
	tls  *tls.Config
	ln   net.Listener
	do   func(at) (act, bool)

	wg    sync.WaitGroup
	mu    sync.Mutex
	open  map[net.Conn]bool
	count int
	steps []string
	mails []took
}

// newPeer starts a peer that ends with t. do may be nil.
func newPeer(t *testing.T, do func(at) (act, bool), ext ...string) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{addr: ln.Addr().String(), ln: ln, do: do, ext: ext, open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// once does it at the first occurrence of a step, in the first connection only.
func once(step string, a act) func(at) (act, bool) {
	return func(w at) (act, bool) { return a, w.step == step && w.conn == 1 && w.n == 1 }
}

// always does it at every occurrence of a step.
func always(step string, a act) func(at) (act, bool) {
	return func(w at) (act, bool) { return a, w.step == step }
}

func (p *peer) stop() {
	_ = p.ln.Close()
	p.mu.Lock()
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *peer) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.count++
		n := p.count
		p.open[c] = true
		p.mu.Unlock()
		p.wg.Go(func() {
			(&talk{p: p, raw: c, rw: bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), conn: n, seen: map[string]int{}}).run()
			_ = c.Close()
			p.mu.Lock()
			delete(p.open, c)
			p.mu.Unlock()
		})
	}
}

func (p *peer) connections() int { p.mu.Lock(); defer p.mu.Unlock(); return p.count }

func (p *peer) live() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.open) }

func (p *peer) dots() []took { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.mails) }

func (p *peer) accepted() (n int) {
	for _, m := range p.dots() {
		if m.accepted {
			n++
		}
	}
	return n
}

// lines returns what was read, commands alone, in order.
func (p *peer) lines() []string { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.steps) }

func (p *peer) line(prefix string) string {
	for _, l := range p.lines() {
		if strings.HasPrefix(l, prefix) {
			return l
		}
	}
	return ""
}

// talk is one connection of a peer.
type talk struct {
	p          *peer
	raw        net.Conn
	rw         *bufio.ReadWriter
	conn       int
	seen       map[string]int
	from, rcpt string
	secure     bool
	negative   bool // the last reply was 4xx or 5xx
}

// say does what the script wants at a step, or says what a good server says, and reports whether the talk goes on.
func (c *talk) say(step, good string) bool {
	c.seen[step]++
	a, scripted := act{}, false
	if c.p.do != nil {
		a, scripted = c.p.do(at{conn: c.conn, n: c.seen[step], step: step, rcpt: c.rcpt, dots: len(c.p.dots())})
	}
	text := good
	if scripted && (a.reply != "" || a.end != goOn) {
		text = a.reply
	}
	c.negative = strings.HasPrefix(text, "4") || strings.HasPrefix(text, "5")
	if step == "dot" { // before the reply: a client that has read it may look at once
		c.p.mu.Lock()
		c.p.mails[len(c.p.mails)-1].accepted = !c.negative
		c.p.mu.Unlock()
	}
	if text != "" {
		_, _ = c.rw.WriteString(text + "\r\n")
		if c.rw.Flush() != nil {
			return false
		}
	}
	if scripted {
		return c.finish(a.end)
	}
	return true
}

func (c *talk) finish(end string) bool {
	switch end {
	case closing:
		return false
	case reset:
		if tcp, ok := c.raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return false
	case silence:
		_, _ = io.Copy(io.Discard, c.raw)
		return false
	}
	return true
}

func (c *talk) run() {
	if !c.say("greeting", "220 mx.example.net ESMTP") {
		return
	}
	for {
		line, err := c.rw.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		c.p.mu.Lock()
		c.p.steps = append(c.p.steps, line)
		c.p.mu.Unlock()
		verb, rest, _ := strings.Cut(line, " ")
		if !c.command(strings.ToUpper(verb), rest) {
			return
		}
	}
}

func (c *talk) command(verb, rest string) bool {
	switch verb {
	case "EHLO":
		lines := append([]string{"mx.example.net"}, c.p.ext...)
		if c.p.tls != nil && !c.secure {
			lines = append(lines, "STARTTLS")
		}
		last := len(lines) - 1
		return c.say(verb, "250-"+strings.Join(lines[:last], "\r\n250-")+"\r\n250 "+lines[last])
	case "STARTTLS":
		return c.say(verb, "220 go ahead") && c.handshake()
	case "AUTH":
		return c.say(verb, "235 2.7.0 welcome")
	case "MAIL":
		c.from = rest
		return c.say(verb, "250 2.1.0 sender ok")
	case "RCPT":
		c.rcpt = rest
		return c.say(verb, "250 2.1.5 recipient ok")
	case "DATA":
		return c.say(verb, "354 go ahead") && (c.negative || c.body())
	case "QUIT":
		c.say(verb, "221 2.0.0 bye")
		return false
	}
	return c.say(verb, "250 2.0.0 ok")
}

func (c *talk) handshake() bool {
	if !c.say("handshake", "") {
		return false
	}
	secured := tls.Server(c.raw, c.p.tls)
	if secured.Handshake() != nil {
		return false
	}
	c.rw, c.secure = bufio.NewReadWriter(bufio.NewReader(secured), bufio.NewWriter(secured)), true
	return true
}

func (c *talk) body() bool {
	var body bytes.Buffer
	for {
		line, err := c.rw.ReadBytes('\n')
		if err != nil {
			return false // no dot: nothing is taken
		}
		if string(line) == ".\r\n" {
			break
		}
		body.Write(bytes.TrimPrefix(line, []byte(".")))
		if c.seen["body"] == 0 && !c.say("body", "") {
			return false
		}
	}
	c.p.mu.Lock()
	c.p.mails = append(c.p.mails, took{from: c.from, rcpt: c.rcpt, body: body.Bytes(), conn: c.conn})
	c.p.mu.Unlock()
	return c.say("dot", "250 2.0.0 Ok: queued as 4F2A1B9C") && c.say("after", "")
}
