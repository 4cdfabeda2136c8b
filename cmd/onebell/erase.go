package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
)

func newErase(stderr *os.File) *cobra.Command {
	var f actFlags
	var recipient string
	var cancelOpen, dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Forget a recipient: what was sent to them, and where",
		Long: "Removes recipient, content and labels of every request for the recipient, and what providers wrote about them. Key, state, times and a keyed\n" +
			"hash of the recipient stay: whether something was sent can still be answered, and a repeat is still known. What waits to be sent is left\n" +
			"and named, unless --cancel-open; what is being sent is left to its sender. The audit keeps who did it and why, and the hash.\n\n" +
			"Configure the channels as for serve: they say how an address is written in its normal form. Give each other spelling in a run of its own.\n" +
			"Not reached are requests that still lie in the broker's stream or are admitted while it runs (run it again), keys that a producer made of an\n" +
			"address, backups of the database, logs, and what providers and recipients hold.",
		Example: "  echo ada@example.org | onebell erase --recipient - --reason \"request 4711\" --dry-run\n" +
			"  echo ada@example.org | onebell erase --recipient - --reason \"request 4711\" --cancel-open",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := readRecipient(recipient, cmd.InOrStdin())
			if err != nil {
				return err
			}
			act, err := f.act()
			if err != nil {
				return err
			}
			cfg, err := loadConfig(serveNeeds)
			if err != nil {
				return err
			}
			app, err := newApp(cfg, newLogger(cfg, stderr)) // for its channels alone; it is not started
			if err != nil {
				return err
			}
			if app.names(act, address) {
				return usagef("--reason and --actor stay in the audit; name the recipient in neither")
			}
			e := intents.Erasure{Act: act, Hashes: app.recipientHashes(address), CancelOpen: cancelOpen, DryRun: dryRun}
			return withStore(cmd.Context(), cfg, stderr, "erase", func(s *pgstore.Store) error {
				return app.erase(cmd.Context(), s, e, asJSON, cmd.OutOrStdout())
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&recipient, "recipient", "", "whom to forget, as requests name them; - reads one line from standard input, which no process list shows")
	cmd.Flags().BoolVar(&cancelOpen, "cancel-open", false, "end what waits to be sent, so that it can be forgotten, too")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// names reports whether the act holds the recipient in any of its forms, in any letter case.
func (a *App) names(act intents.Act, recipient string) bool {
	kept := strings.ToLower(act.Reason + "\n" + act.Actor)
	return slices.ContainsFunc(a.recipientForms(recipient), func(form string) bool { return strings.Contains(kept, strings.ToLower(form)) })
}

func readRecipient(given string, in io.Reader) (string, error) {
	if given == "-" {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", errors.New("standard input could not be read")
		}
		given = strings.TrimRight(line, "\r\n")
	}
	if given == "" {
		return "", usagef("--recipient is required; with - it is read from standard input")
	}
	return given, nil
}

// erasedReport is what erase prints. It names nobody.
type erasedReport struct {
	DryRun    bool             `json:"dry_run"`
	Run       string           `json:"run,omitempty"` // in the audit
	Looked    int64            `json:"looked_at"`
	Found     int              `json:"found"`
	Erased    int              `json:"erased"`
	Cancelled []uuid.UUID      `json:"cancelled"`
	Unknown   []uuid.UUID      `json:"unknown"`
	Left      []unerasedIntent `json:"left"`
	Foreign   []string         `json:"channels_not_configured"` // their normal form of the recipient is not known here
}

type unerasedIntent struct {
	ID      uuid.UUID `json:"id"`
	Channel string    `json:"channel"`
	State   string    `json:"state"`
}

// errLeft says that an erasure is not complete.
var errLeft = errors.New("some requests are still open and were left; run it again when they are settled (--cancel-open ends those that wait)")

func (a *App) erase(ctx context.Context, s *pgstore.Store, e intents.Erasure, asJSON bool, out io.Writer) error {
	done, err := s.Erase(ctx, e)
	if err != nil {
		return err
	}
	p := erasedReport{
		DryRun: e.DryRun, Looked: done.Looked, Found: done.Found, Erased: done.Erased, Left: []unerasedIntent{}, Foreign: []string{},
		Cancelled: append([]uuid.UUID{}, done.Cancelled...), Unknown: append([]uuid.UUID{}, done.Unknown...),
	}
	if done.Run != uuid.Nil {
		p.Run = done.Run.String()
	}
	for _, l := range done.Left {
		p.Left = append(p.Left, unerasedIntent{l.ID, l.Channel, string(l.State)})
	}
	for _, name := range done.Channels {
		if _, ok := a.registry.Lookup(name); !ok {
			p.Foreign = append(p.Foreign, name)
		}
	}
	if asJSON {
		err = printJSON(out, p)
	} else {
		p.print(out)
	}
	if err == nil && len(p.Left) > 0 {
		err = errLeft
	}
	return err
}

func (p erasedReport) print(out io.Writer) {
	if p.DryRun {
		fmt.Fprintln(out, "nothing was changed; this would be done:")
	}
	fmt.Fprintf(out, "looked at %d requests, found %d for the recipient, forgot %d\n", p.Looked, p.Found, p.Erased)
	for _, id := range p.Cancelled {
		fmt.Fprintf(out, "cancelled  %s\n", id)
	}
	for _, id := range p.Unknown {
		fmt.Fprintf(out, "unknown    %s  nobody knows whether it was sent, and it cannot be sent any more\n", id)
	}
	for _, l := range p.Left {
		fmt.Fprintf(out, "left       %s  %s on %s\n", l.ID, l.State, l.Channel)
	}
	if len(p.Foreign) > 0 {
		fmt.Fprintf(out, "not configured here: %s; requests there were found only if they name the recipient as you did\n", strings.Join(p.Foreign, ", "))
	}
}
