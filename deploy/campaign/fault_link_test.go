package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// echoing is a link to a server that answers every line with the same line.
func echoing(t *testing.T) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	k, err := newLink(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

// caller is a connection through the link, on which something was said and answered.
func caller(t *testing.T, k *link) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", k.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(c)
	fmt.Fprintln(c, "hello")
	if line, err := answers.ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("answer %q, %v", line, err)
	}
	return c, answers
}

func TestCutLinkBreaksWhatStandsAndLetsNewIn(t *testing.T) {
	k := echoing(t)
	_, answers := caller(t, k)
	if n := k.cut(); n != 1 {
		t.Errorf("%d connections cut, want 1", n)
	}
	if _, err := answers.ReadString('\n'); err == nil {
		t.Error("the connection stands")
	}
	caller(t, k)
}

func TestRefusingLinkLetsNobodyIn(t *testing.T) {
	k := echoing(t)
	caller(t, k)
	if n := k.refuse(true); n != 1 {
		t.Errorf("%d connections broken, want 1", n)
	}
	c, err := net.Dial("tcp", k.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, "hello")
	if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		t.Error("somebody answers")
	}
	k.refuse(false)
	caller(t, k)
}

func TestHeldLinkDelaysAndLosesNothing(t *testing.T) {
	for name, d := range map[string]direction{"towards": towards, "back": back} {
		t.Run(name, func(t *testing.T) {
			k := echoing(t)
			c, answers := caller(t, k)
			k.hold(d)
			fmt.Fprintln(c, "held")
			for end := time.Now().Add(time.Minute); ; { // until the line has come to the gate
				k.gates[d].mu.Lock()
				waited := k.gates[d].waited
				k.gates[d].mu.Unlock()
				if waited == 1 {
					break
				}
				if time.Now().After(end) {
					t.Fatal("nothing came to the gate")
				}
				time.Sleep(time.Millisecond)
			}
			if answers.Buffered() != 0 {
				t.Error("an answer came through")
			}
			if n := k.release(d); n != 1 {
				t.Errorf("%d pieces waited, want 1", n)
			}
			if line, err := answers.ReadString('\n'); err != nil || line != "held\n" {
				t.Errorf("answer %q, %v", line, err)
			}
		})
	}
}
