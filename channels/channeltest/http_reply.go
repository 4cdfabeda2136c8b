package channeltest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// wire is one accepted connection, with the ways of ending it that a well-behaved server does not have.
type wire struct {
	net.Conn          // TLS, where there is TLS
	raw      net.Conn // the TCP connection
	done     chan struct{}
}

// write writes, or notices that the client has gone: then nothing remains to be done.
func (w *wire) write(s string) bool {
	_, err := io.WriteString(w.Conn, s)
	return err == nil
}

// reset ends the connection with RST in place of FIN.
func (w *wire) reset() {
	if tcp, ok := w.raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is a FIN: the test's table would say so
	}
	_ = w.raw.Close()
}

// untilClientGoes returns when the client has closed, or the peer ends.
func (w *wire) untilClientGoes() { _, _ = io.Copy(io.Discard, w.raw) }

// drip writes a byte now and then until the client goes or the peer ends.
func (w *wire) drip() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for w.write(".") {
		select {
		case <-w.done:
			return
		case <-tick.C:
		}
	}
}

// flood writes until the client goes.
func (w *wire) flood(chunk string) {
	for w.write(chunk) {
	}
}

const (
	okHead    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	floodSize = 64 << 10
)

// commit commits the peer's fault, after the whole request was read, and reports whether the connection goes on.
func (p *HTTPPeer) commit(w *wire, r *http.Request, body []byte) bool {
	switch f := p.o.Fault; f {
	case FaultCloseAfter:
	case FaultResetAfter:
		w.reset()
	case FaultSilence:
		w.untilClientGoes()
	case FaultTruncated:
		w.write("HTTP/1.1 20")
	case FaultGarbage:
		w.write("* OK IMAP4rev1 ready\r\n")
	case FaultBreakAfter:
		w.write(okHead + "Content-Length: 1000\r\n\r\n{\"ok\":")
	case FaultDrip:
		if w.write(okHead + "Content-Length: 100000\r\n\r\n") {
			w.drip()
		}
	case FaultFlood:
		if w.write(okHead + "Content-Length: 5368709120\r\n\r\n") {
			w.flood(strings.Repeat("x", floodSize))
		}
	case FaultBomb:
		b := bomb()
		w.write(okHead + "Content-Encoding: gzip\r\nContent-Length: " + fmt.Sprint(len(b)) + "\r\n\r\n" + string(b))
	case FaultHeaderFlood:
		if w.write("HTTP/1.1 200 OK\r\n") {
			w.flood("X-Filler: " + strings.Repeat("x", 1024) + "\r\n")
		}
	default:
		p.echo(w, f.Status(), r, body)
		return true
	}
	return false
}

// ok accepts.
func (p *HTTPPeer) ok(w io.Writer, r *http.Request, body []byte) { p.echo(w, http.StatusOK, r, body) }

// echo replies with the status and everything that the peer was sent: URL, keys, signatures and body, as debugging
// servers do.
func (p *HTTPPeer) echo(w io.Writer, status int, r *http.Request, body []byte) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "you called %s with", p.URL(r.RequestURI))
	_ = r.Header.Write(&text) // a buffer takes everything
	text.Write(body)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		text.Reset() // these have no body, by the protocol
	}
	h := p.o.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Length", fmt.Sprint(text.Len()))
	if status >= 300 && status <= 399 && h.Get("Location") == "" {
		h.Set("Location", p.URL("/redirected")) // a client that follows makes a second request here
	}
	var reply bytes.Buffer
	fmt.Fprintf(&reply, "HTTP/1.1 %03d %s\r\n", status, http.StatusText(status))
	_ = h.Write(&reply) // as above
	reply.WriteString("\r\n")
	reply.Write(text.Bytes())
	_, _ = w.Write(reply.Bytes()) // a client that has gone misses its reply
}

// bomb returns what unpacks to 64 MiB of zeros and is about 64 KiB: one compressed MiB, over and over, which is one valid
// stream. It is made once: compressing takes longer than an attempt may.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 1<<20)) // a buffer takes everything
	_ = z.Close()                       // as above
	return bytes.Repeat(b.Bytes(), 64)
})
