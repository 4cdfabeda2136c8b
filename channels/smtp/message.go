package smtp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	netmail "net/mail"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wneessen/go-mail"

	"github.com/onebell/onebell/channels"
)

// maxLine is the longest line that may be sent, without CRLF (RFC 5321 §4.5.3.1.6).
const maxLine = 998

// render makes the whole mail, headers and body, with CRLF. It depends on nothing but its arguments: what a library would
// draw at random or read from the clock (Message-ID, Date, MIME boundary) comes from the effect key and the message's date.
func (s *settled) render(m channels.Message, c content) ([]byte, error) {
	if err := checkMessage(m); err != nil {
		return nil, err
	}
	body := mail.NewMsg(mail.WithNoDefaultUserAgent())
	setBodies(body, c, boundary(m.EffectKey, "alternative"))
	whole := body
	if len(c.attachments) > 0 {
		// go-mail gives every level the same boundary, so mixed around alternative is made in two goes.
		inner, contentType, err := bodyOf(body)
		if err != nil {
			return nil, err
		}
		whole = mail.NewMsg(mail.WithNoDefaultUserAgent())
		setInner(whole, c, inner, contentType)
		whole.SetBoundary(boundary(m.EffectKey, "mixed"))
		for _, a := range c.attachments {
			attach(whole, a)
		}
	}
	s.setHeaders(whole, m, c)
	out, err := write(whole)
	if err != nil {
		return nil, err
	}
	return out, checkLines(out)
}

func checkMessage(m channels.Message) error {
	if m.Date.IsZero() {
		return errors.New("a mail needs a date; give Message.Date")
	}
	if m.EffectKey == "" || len(m.EffectKey) > 64 || strings.ContainsFunc(m.EffectKey, func(r rune) bool {
		return r >= utf8.RuneSelf || r != '-' && r != '_' && !isAlnum(byte(r))
	}) {
		return errors.New("the effect key does not fit into a Message-ID; encode it in the contract's key format")
	}
	return nil
}

func (s *settled) setHeaders(msg *mail.Msg, m channels.Message, c content) {
	msg.SetAddrHeaderFromMailAddress(mail.HeaderFrom, &s.from)
	msg.SetAddrHeaderFromMailAddress(mail.HeaderTo, &netmail.Address{Address: m.Recipient})
	if c.replyTo != "" {
		msg.SetAddrHeaderFromMailAddress(mail.HeaderReplyTo, &netmail.Address{Address: c.replyTo})
	}
	msg.SetMessageIDWithValue(m.EffectKey + "@" + s.fromDomain)
	msg.SetDateWithValue(m.Date.UTC())
	msg.SetGenHeader(mail.HeaderSubject, encodeWords(c.subject))
	for _, name := range slices.Sorted(maps.Keys(c.headers)) {
		value := c.headers[name]
		if !slices.Contains(plainHeaders, name) {
			value = encodeWords(value)
		}
		msg.SetGenHeader(mail.Header(name), value)
	}
	if s.IdempotencyHeader != "" {
		msg.SetGenHeader(mail.Header(s.IdempotencyHeader), m.EffectKey)
	}
}

func setBodies(msg *mail.Msg, c content, boundary string) {
	switch {
	case c.html == "":
		msg.SetBodyString(mail.TypeTextPlain, c.text)
	case c.text == "":
		msg.SetBodyString(mail.TypeTextHTML, c.html)
	default:
		msg.SetBoundary(boundary)
		msg.SetBodyString(mail.TypeTextPlain, c.text)
		msg.AddAlternativeString(mail.TypeTextHTML, c.html)
	}
}

// bodyOf renders the message and returns what stands below its headers, and its content type.
func bodyOf(msg *mail.Msg) (body []byte, contentType string, err error) {
	msg.SetMessageIDWithValue("inner")
	out, err := write(msg)
	if err != nil {
		return nil, "", err
	}
	parsed, err := netmail.ReadMessage(bytes.NewReader(out))
	if err != nil {
		return nil, "", fmt.Errorf("rendering the bodies: %w", err)
	}
	if body, err = io.ReadAll(parsed.Body); err != nil {
		return nil, "", fmt.Errorf("rendering the bodies: %w", err)
	}
	return body, parsed.Header.Get("Content-Type"), nil
}

func setInner(msg *mail.Msg, c content, inner []byte, contentType string) {
	if c.text == "" || c.html == "" {
		setBodies(msg, c, "")
		return
	}
	msg.SetBodyWriter(mail.ContentType(contentType), func(w io.Writer) (int64, error) {
		n, err := w.Write(inner)
		return int64(n), err
	}, mail.WithPartEncoding(mail.NoEncoding))
}

func attach(msg *mail.Msg, a attachment) {
	msg.AttachReadSeeker(a.name, bytes.NewReader(a.data), func(f *mail.File) {
		f.Header.Set("Content-Type", a.mediaType)
		f.Header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.name}))
	})
}

func write(msg *mail.Msg) ([]byte, error) {
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("rendering the mail: %w", err)
	}
	// Closing DATA would add this line end; added here, what is stored is what is sent.
	if !bytes.HasSuffix(out.Bytes(), []byte("\r\n")) {
		out.WriteString("\r\n")
	}
	return out.Bytes(), nil
}

// boundary names a MIME level. It cannot be foreseen by whoever writes the body, since the effect key cannot.
func boundary(effectKey, level string) string {
	sum := sha256.Sum256([]byte("onebell boundary v1\x00" + level + "\x00" + effectKey))
	return "onebell-" + hex.EncodeToString(sum[:16])
}

// checkLines makes sure that every server splits the bytes into the same lines: a CR or LF alone is what SMTP smuggling
// is made of, and a line that is too long may be cut anywhere.
func checkLines(b []byte) error {
	for line := range bytes.Lines(b) {
		body, ok := bytes.CutSuffix(line, []byte("\r\n"))
		if !ok || bytes.ContainsAny(body, "\r\x00") {
			return errors.New("rendering the mail left a line that does not end in CRLF")
		}
		if len(body) > maxLine {
			return fmt.Errorf("rendering the mail left a line of more than %d bytes", maxLine)
		}
	}
	return nil
}

// encodeWords writes unstructured header text so that it reads back unchanged after folding: as it stands where that is
// certain, as RFC 2047 words otherwise. Runs of blanks do not survive folding, long words cannot be folded, and text that looks
// like an encoded word would be decoded.
func encodeWords(s string) string {
	if isPlainText(s) {
		return s
	}
	const chunk = 33 // bytes; 44 in base64, so that a word fits behind a short header name
	var words []string
	for len(s) > 0 {
		n := min(chunk, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		words = append(words, "=?UTF-8?B?"+base64.StdEncoding.EncodeToString([]byte(s[:n]))+"?=")
		s = s[n:]
	}
	return strings.Join(words, " ")
}

func isPlainText(s string) bool {
	const longest = 60
	if !isASCII(s) || !oneLine(s) || strings.Contains(s, "=?") {
		return false
	}
	for word := range strings.SplitSeq(s, " ") {
		if word == "" || len(word) > longest {
			return false
		}
	}
	return true
}
