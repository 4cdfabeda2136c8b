package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks a running onebell's admin API. The zero value is of no use; NewClient makes one. Safe for concurrent use.
// An answer that is a problem comes back as a *Problem.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// clientTimeout bounds a request of a Client made without one of one's own, and maxAnswer what it reads, in bytes.
const (
	clientTimeout = 30 * time.Second
	maxAnswer     = 32 << 20
)

// NewClient returns a client of the API at base, as in http://127.0.0.1:8080. Token may be empty where none is asked for;
// a nil client is replaced by one with a time limit. Redirects are not followed: the token belongs to one host.
func NewClient(base, token string, client *http.Client) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, errors.New("the admin address must be a URL, as in http://127.0.0.1:8080")
	}
	c := http.Client{Timeout: clientTimeout}
	if client != nil {
		c = *client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), token: token, http: &c}, nil
}

// Query selects intents; zero members do not restrict.
type Query struct {
	Caller, Channel, Key  string
	Revision              *int32
	State                 string
	Recipient, ProviderID string
	Since, Until          time.Time
	Cursor                string
	Limit                 int // 0: the server's default
}

// Intents returns a page of intents, newest first.
func (c *Client) Intents(ctx context.Context, q Query) (IntentPage, error) {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("caller", q.Caller)
	set("channel", q.Channel)
	set("key", q.Key)
	set("state", q.State)
	set("recipient", q.Recipient)
	set("provider_id", q.ProviderID)
	set("cursor", q.Cursor)
	if q.Revision != nil {
		set("revision", strconv.Itoa(int(*q.Revision)))
	}
	if !q.Since.IsZero() {
		set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if !q.Until.IsZero() {
		set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	if q.Limit != 0 {
		set("limit", strconv.Itoa(q.Limit))
	}
	var page IntentPage
	return page, c.get(ctx, "/v1/intents?"+v.Encode(), &page)
}

// Intent returns one intent.
func (c *Client) Intent(ctx context.Context, id string) (IntentDetail, error) {
	var d IntentDetail
	return d, c.get(ctx, "/v1/intents/"+url.PathEscape(id), &d)
}

// StatusByKey returns the intents of a key, newest first, in full: all its revisions, or the one given. Caller and channel may
// be empty. It follows at most statusPages pages.
func (c *Client) StatusByKey(ctx context.Context, caller, channel, key string, revision *int32) ([]IntentDetail, error) {
	q := Query{Caller: caller, Channel: channel, Key: key, Revision: revision}
	var out []IntentDetail
	for range statusPages {
		page, err := c.Intents(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Intents {
			d, err := c.Intent(ctx, i.ID)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" || len(out) > 0 {
			break
		}
	}
	return out, nil
}

// statusPages bounds the search for a key whose caller or channel is not given.
const statusPages = 20

// Channels returns all channels.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	var list ChannelList
	err := c.get(ctx, "/v1/channels", &list)
	return list.Channels, err
}

// Stats returns the counts since then; the zero time means the server's default.
func (c *Client) Stats(ctx context.Context, since time.Time) (Stats, error) {
	path := "/v1/stats"
	if !since.IsZero() {
		path += "?" + url.Values{"since": {since.UTC().Format(time.RFC3339Nano)}}.Encode()
	}
	var st Stats
	return st, c.get(ctx, path, &st)
}

// Refusals returns a page of refusals, newest first; cursor is empty for the first.
func (c *Client) Refusals(ctx context.Context, cursor string) (RefusalPage, error) {
	var page RefusalPage
	return page, c.get(ctx, "/v1/refusals?"+url.Values{"cursor": {cursor}}.Encode(), &page)
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return errors.New("the admin address cannot be used")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", c.base, withoutURL(err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("asking %s: %w", c.base, err)
	}
	if res.StatusCode != http.StatusOK {
		p := &Problem{}
		if json.Unmarshal(body, p) != nil || p.Detail == "" {
			return fmt.Errorf("asking %s: it answered %s; is that onebell's admin address?", c.base, res.Status)
		}
		return p
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("asking %s: it answered something else than expected; is that onebell's admin address, of this version?", c.base)
	}
	return nil
}

// withoutURL strips the URL that net/http repeats: a recipient may stand in its query.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}
