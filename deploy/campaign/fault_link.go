package main

import (
	"io"
	"net"
	"sync"
)

// link is a TCP proxy that stands for the network between a dispatcher and the broker or the database. Its methods may be called
// concurrently.
type link struct {
	target string
	listen net.Listener

	mu     sync.Mutex
	closed bool
	down   bool     // connections are refused
	gates  [2]*gate // by direction
	conns  map[*pair]struct{}
	pumps  sync.WaitGroup
}

// direction is the way that bytes go.
type direction int

const (
	towards direction = iota // from the dispatcher to the server
	back
)

// pair is one connection and the one that stands for it.
type pair struct{ client, server net.Conn }

func (p *pair) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// reset ends both abruptly, as a dead host does.
func (p *pair) reset() {
	for _, c := range []net.Conn{p.client, p.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	p.close()
}

// gate lets bytes of one direction through, or keeps them: then nobody answers, and nothing is broken.
type gate struct {
	mu     sync.Mutex
	open   chan struct{} // closed while bytes may pass
	waited int           // chunks that found it shut
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	select {
	case <-open:
	default:
		g.waited++
	}
	g.mu.Unlock()
	<-open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.waited = make(chan struct{}), 0
}

// reopen says how many chunks had to wait.
func (g *gate) reopen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
	return g.waited
}

func newLink(target string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{target: target, listen: l, gates: [2]*gate{newGate(), newGate()}, conns: map[*pair]struct{}{}}
	k.pumps.Go(k.accept)
	return k, nil
}

func (k *link) addr() string { return k.listen.Addr().String() }

// cut breaks every connection at once and says how many there were.
func (k *link) cut() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.conns {
		p.reset()
	}
	return len(k.conns)
}

// refuse breaks every connection, and every new one until it is lifted.
func (k *link) refuse(down bool) int {
	k.mu.Lock()
	k.down = down
	k.mu.Unlock()
	if down {
		return k.cut()
	}
	return 0
}

// hold keeps the bytes of a direction until release.
func (k *link) hold(d direction) { k.gates[d].shut() }

// release lets them go on, and says how many chunks waited.
func (k *link) release(d direction) int { return k.gates[d].reopen() }

func (k *link) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	_ = k.listen.Close()
	k.cut()
	for _, g := range k.gates {
		g.reopen()
	}
	k.pumps.Wait()
}

func (k *link) accept() {
	for {
		client, err := k.listen.Accept()
		if err != nil {
			return // closed
		}
		k.serve(client)
	}
}

func (k *link) serve(client net.Conn) {
	server, err := net.Dial("tcp", k.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p := &pair{client: client, server: server}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down || k.closed {
		p.close()
		return
	}
	k.conns[p] = struct{}{}
	var both sync.WaitGroup
	both.Go(func() { k.pump(p, client, server, towards) })
	both.Go(func() { k.pump(p, server, client, back) })
	k.pumps.Go(func() {
		both.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.conns, p)
	})
}

// pump carries one direction. When one ends both do.
func (k *link) pump(p *pair, from io.Reader, to io.Writer, d direction) {
	defer p.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			k.gates[d].pass()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
