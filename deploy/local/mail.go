package local

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"time"
)

// Mail is one message that has arrived.
type Mail struct {
	// ID counts arrivals from 1.
	ID int       `json:"id"`
	At time.Time `json:"at"`
	// From and To are the envelope's.
	From string   `json:"from"`
	To   []string `json:"to"`
	// MessageID, Subject (decoded), Text and HTML are the message's, empty where it has none.
	MessageID   string   `json:"message_id"`
	Subject     string   `json:"subject"`
	Text        string   `json:"text"`
	HTML        string   `json:"html"`
	Attachments []string `json:"attachments"`
	// Problem says what of the message could not be read.
	Problem string `json:"problem,omitempty"`
	// Raw is the message as it came.
	Raw []byte `json:"-"`
}

// maxDepth bounds how deep parts may be nested.
const maxDepth = 10

// parse fills in what can be read of Raw.
func (m *Mail) parse() {
	m.To, m.Attachments = append([]string{}, m.To...), []string{} // never null in JSON
	msg, err := mail.ReadMessage(bytes.NewReader(m.Raw))
	if err != nil {
		m.Problem = err.Error()
		return
	}
	m.MessageID = msg.Header.Get("Message-Id")
	subject := msg.Header.Get("Subject")
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(subject); err != nil {
		m.Subject, m.Problem = subject, err.Error()
	}
	if err := m.part(textproto.MIMEHeader(msg.Header), msg.Body, 0); err != nil {
		m.Problem = err.Error()
	}
}

// part reads one part, and those inside it.
func (m *Mail) part(h textproto.MIMEHeader, body io.Reader, depth int) error {
	if depth > maxDepth {
		return errors.New("the parts are nested too deep")
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if h.Get("Content-Type") == "" {
		kind, err = "text/plain", nil
	}
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	if strings.HasPrefix(kind, "multipart/") {
		return m.parts(multipart.NewReader(body, params["boundary"]), depth)
	}
	disposition, names, err := mime.ParseMediaType(h.Get("Content-Disposition"))
	if err == nil && disposition == "attachment" {
		m.Attachments = append(m.Attachments, fmt.Sprintf("%s (%s)", names["filename"], kind))
		return nil
	}
	text, err := io.ReadAll(decoded(h.Get("Content-Transfer-Encoding"), body))
	switch {
	case kind == "text/html":
		m.HTML += string(text)
	case strings.HasPrefix(kind, "text/"):
		m.Text += string(text)
	default:
		m.Attachments = append(m.Attachments, fmt.Sprintf("(%s)", kind))
	}
	return err
}

func (m *Mail) parts(r *multipart.Reader, depth int) error {
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := m.part(p.Header, p, depth+1); err != nil {
			return err
		}
	}
}

func decoded(encoding string, r io.Reader) io.Reader {
	switch strings.ToLower(encoding) {
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		return quotedprintable.NewReader(r)
	}
	return r
}
