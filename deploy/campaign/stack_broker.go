package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/deploy/local"
)

// The broker runs in a child of its own, which is this command again, so that it can be killed and frozen. It reads its options and
// then one word a line from its standard input, and answers each line with one of its own.
const (
	brokerReady  = "ready"
	brokerReload = "reload"
)

func newBrokerChild() *cobra.Command {
	return &cobra.Command{
		Use: "broker", Hidden: true, Args: cobra.NoArgs, Short: "Be the broker of a campaign",
		RunE: func(*cobra.Command, []string) error { return serveBroker(os.Stdin, os.Stdout) },
	}
}

func serveBroker(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no options")
	}
	var opts local.NATSOptions
	if err := json.Unmarshal(lines.Bytes(), &opts); err != nil {
		return err
	}
	n, err := local.StartNATS(opts)
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	fmt.Fprintln(out, brokerReady)
	for lines.Scan() { // ends with the campaign, however that ends
		if err := n.Reload(); err != nil {
			return err
		}
		fmt.Fprintln(out, brokerReady)
	}
	return nil
}

// broker is that child, seen from the campaign. Its methods are for one goroutine.
type broker struct {
	opts   local.NATSOptions
	config string // the configuration as it should be

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ended  func() error
}

// Users of the campaign's broker. Dispatchers have the rights that the shipped configuration gives them; producers, and the campaign
// itself, come without a name and may do everything.
const (
	brokerUser     = "dispatcher"
	brokerPassword = "campaign-dispatcher"
)

// brokerConfig is the shipped configuration with a user for the campaign.
func brokerConfig(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "nats-server.conf"))
	if err != nil {
		return "", err
	}
	const users = "users: ["
	config := strings.Replace(string(text), users, users+"\n      { user: campaign, password: campaign }", 1)
	for variable, value := range map[string]string{"OPERATOR": "campaign-operator", "DISPATCHER": brokerPassword, "SHOP": "campaign-shop"} {
		name := "$NATS_" + variable + "_PASSWORD"
		if !strings.Contains(config, name) {
			return "", fmt.Errorf("deploy/nats-server.conf does not name %s any more", name)
		}
		config = strings.ReplaceAll(config, name, value)
	}
	return config + "\nno_auth_user: campaign\n", nil
}

// withoutAcks is the configuration with the dispatchers' right to acknowledge taken away.
func withoutAcks(config string) (string, error) {
	var kept []string
	for line := range strings.Lines(config) {
		if !strings.Contains(line, `"$JS.ACK.ONEBELL_REQUESTS.onebell.>"`) {
			kept = append(kept, line)
		}
	}
	out := strings.Join(kept, "")
	if out == config {
		return "", errors.New("deploy/nats-server.conf has no line of its own for acknowledgements any more")
	}
	return out, nil
}

func startBroker(root, dir string) (*broker, error) {
	config, err := brokerConfig(root)
	if err != nil {
		return nil, err
	}
	b := &broker{config: config, opts: local.NATSOptions{Dir: filepath.Join(dir, "streams"), Durable: true, ConfigFile: filepath.Join(dir, "nats.conf")}}
	if err := b.write(config); err != nil {
		return nil, err
	}
	for range 3 { // a port can be taken between the look and the start
		if b.opts.Port, err = local.FreePort(0); err != nil {
			return nil, err
		}
		if err = b.start(); err == nil {
			return b, nil
		}
		b.kill()
	}
	return nil, err
}

func (b *broker) write(config string) error {
	if err := os.MkdirAll(b.opts.Dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.opts.ConfigFile, []byte(config), 0o600)
}

func (b *broker) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "broker")
	cmd.Stderr = os.Stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	ended, err := launch(cmd)
	if err := errors.Join(errIn, errOut, err); err != nil {
		return err
	}
	b.cmd, b.stdin, b.stdout, b.ended = cmd, stdin, bufio.NewReader(stdout), ended
	opts, err := json.Marshal(b.opts)
	if err != nil {
		return err
	}
	return b.say(string(opts))
}

// say sends a line and waits for the answer.
func (b *broker) say(line string) error {
	if _, err := fmt.Fprintln(b.stdin, line); err != nil {
		return err
	}
	answer, err := b.stdout.ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != brokerReady {
		return fmt.Errorf("the broker's process answered %q: %w", answer, err)
	}
	return nil
}

// reload has the broker run with another configuration.
func (b *broker) reload(config string) error {
	if err := b.write(config); err != nil {
		return err
	}
	return b.say(brokerReload)
}

// addr is host and port.
func (b *broker) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.opts.Port) }

// url is where producers, and the campaign, connect.
func (b *broker) url() string { return "nats://" + b.addr() }

// kill ends the process, frozen or not, and returns when it is gone.
func (b *broker) kill() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill() // fails only where it is dead already
	_ = b.ended()            // says "killed"
	_ = b.stdin.Close()
}

// restart brings it back on the same port with the same streams, after an orderly end where it runs.
func (b *broker) restart() error {
	_ = b.stdin.Close()
	_ = b.ended()
	return b.start()
}

// freeze stops the process where it stands: connections stay open and nothing answers.
func (b *broker) freeze() error { return b.cmd.Process.Signal(syscall.SIGSTOP) }

func (b *broker) thaw() error { return b.cmd.Process.Signal(syscall.SIGCONT) }
