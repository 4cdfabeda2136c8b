package local

import (
	"encoding/binary"
	"io"
)

// The protocol is described at https://www.postgresql.org/docs/current/protocol-message-formats.html. After the first
// message of a connection, which has no type byte, every message is a type byte, a length (of itself and the body), and
// the body.

const (
	sslRequest    = 80877103
	gssRequest    = 80877104
	cancelRequest = 80877102
)

// message is one of them; kind 0 is the first.
type message struct {
	kind byte
	body []byte
}

func (m message) bytes() []byte {
	var b []byte
	if m.kind != 0 {
		b = append(b, m.kind)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.body)+4))
	return append(b, m.body...)
}

func readMessage(r io.Reader, first bool) (message, error) {
	var m message
	head := make([]byte, 5)
	if first {
		head = head[1:]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return m, err
	}
	if !first {
		m.kind, head = head[0], head[1:]
	}
	size := binary.BigEndian.Uint32(head)
	if size < 4 {
		return m, io.ErrUnexpectedEOF
	}
	m.body = make([]byte, size-4)
	_, err := io.ReadFull(r, m.body)
	return m, err
}
