package dispatch

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

// letter is one request as it arrived, and the way back to its sender.
type letter struct {
	subject   string
	data      []byte
	header    nats.Header
	published time.Time // the broker's clock; zero for submit requests
	seq       uint64    // in the stream; 0 for submit requests
	tries     uint64    // deliveries so far, this one included
	refusal   uuid.UUID // the id that a refusal of it has
	expires   time.Time // local; a submit request is answered by then. Zero: no limit
	back      answerer
}

// weight is what the letter occupies, in bytes.
func (l *letter) weight() int64 {
	n := letterBytes + len(l.subject) + len(l.data)
	for name, values := range l.header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return int64(n)
}

// answerer is the way back to the sender of a letter. One of its methods is called once.
type answerer interface {
	// answer tells the verdict, which is durable.
	answer(r wire.Reply)
	// postpone says that the database could not take the request for now.
	postpone()
}

// delivery is a letter from the stream. An answer that gets lost brings the letter again, and it is answered as a duplicate.
type delivery struct {
	msg   jetstream.Msg
	tries uint64
	in    *intake
}

func (d delivery) answer(r wire.Reply) {
	var err error
	if r.Code == "" { // accepted, or a duplicate
		err = d.msg.Ack()
	} else {
		err = d.msg.TermWithReason(string(r.Verdict) + " " + r.Code)
	}
	if err != nil {
		d.in.log.Debug("an acknowledgement was not sent; the request will come again", "error", err)
	}
}

func (d delivery) postpone() {
	d.in.metrics.naks.Inc()
	if err := d.msg.NakWithDelay(nakDelay(d.tries)); err != nil {
		d.in.log.Debug("a request was not given back; it will come again", "error", err)
	}
}

// nakDelay grows with the number of deliveries, from about a second to about half a minute. Deliveries are unlimited.
func nakDelay(tries uint64) time.Duration {
	return jittered(min(time.Second<<min(tries, 5), 25*time.Second))
}

// deliveryID names a refusal by the place of its letter in the stream, so that a letter that comes again is refused once. The
// stream's creation time tells streams of one name apart.
func deliveryID(stream string, created time.Time, seq uint64) uuid.UUID {
	h := sha256.New()
	h.Write([]byte("onebell refusal v1 " + stream))
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(created.UnixNano())), seq))
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
