package main

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instanceOf says under which instance name the example shows a channel type.
var instanceOf = map[string]string{"fcm": "PUSH", "smtp": "MAIL", "webhook": "HOOKS", "sandbox": "BOX"}

var exampleLine = regexp.MustCompile(`^(# e\.g\. |#)?(ONEBELL_[A-Z0-9_]+)=(.+)$`)

// example reads deploy/onebell.env.example: what is set, what is shown as a default, and every name.
func example(t *testing.T) (set, defaults map[string]string, all []string) {
	t.Helper()
	f, err := os.Open("../../deploy/onebell.env.example")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set, defaults = map[string]string{}, map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		m := exampleLine.FindStringSubmatch(s.Text())
		if m == nil {
			if line := s.Text(); line != "" && !strings.HasPrefix(line, "# ") {
				t.Errorf("a line that is neither a comment nor a variable: %q", line)
			}
			continue
		}
		if slices.Contains(all, m[2]) {
			t.Errorf("%s stands there twice", m[2])
		}
		all = append(all, m[2])
		switch m[1] {
		case "":
			set[m[2]] = m[3]
		case "#":
			defaults[m[2]] = m[3]
		}
	}
	return set, defaults, all
}

// reference is every variable of the code with its default, channel types under the example's instance names.
func reference(t *testing.T) map[string]string {
	t.Helper()
	service, perType, err := envReference()
	if err != nil {
		t.Fatal(err)
	}
	ref := map[string]string{}
	for _, v := range service {
		ref[v.Name] = v.Default
	}
	for typ, vars := range perType {
		for _, v := range vars {
			ref[strings.Replace(v.Name, "<NAME>", instanceOf[typ], 1)] = v.Default
		}
	}
	return ref
}

func TestEnvExampleIsTheCode(t *testing.T) {
	set, defaults, all := example(t)
	ref := reference(t)
	for _, name := range all {
		if _, ok := ref[name]; !ok {
			t.Errorf("%s stands in the example but not in the code", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ref)) {
		if !slices.Contains(all, name) {
			t.Errorf("%s is not in the example", name)
		}
		if shown, ok := defaults[name]; ok && shown != ref[name] {
			t.Errorf("%s: the example shows default %q, the code has %q", name, shown, ref[name])
		} else if _, isSet := set[name]; !ok && !isSet && ref[name] != "" {
			t.Errorf("%s: the default %q is not shown", name, ref[name])
		}
	}
}

// The example alone lacks the secret alone, and starts with what the unit adds.
func TestEnvExampleStartsWithTheUnitsSecret(t *testing.T) {
	set, _, _ := example(t)
	setEnv(t, set)
	if _, err := loadConfig(serveNeeds); err == nil || !strings.HasPrefix(err.Error(), "ONEBELL_SECRET is required") || strings.Contains(err.Error(), "; ONEBELL_") {
		t.Errorf("the example as it stands: %v; it must be refused for its secret alone", err)
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 64)+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	for _, assignment := range unit(t)["[Service]Environment"] {
		name, value, _ := strings.Cut(assignment, "=")
		if _, both := set[name]; both {
			t.Errorf("%s stands in the example and in the unit; the example's would win", name)
		}
		set[name] = strings.Replace(value, "%d/secret", path, 1)
	}
	setEnv(t, set)
	if _, err := loadConfig(serveNeeds); err != nil {
		t.Errorf("with the unit's settings: %v", err)
	}
}

// The installation notes of the unit read the example with a shell, too.
func TestEnvExampleIsReadByAShell(t *testing.T) {
	set, _, _ := example(t)
	out, err := exec.Command("env", "-i", "sh", "-c", "set -a; . ../../deploy/onebell.env.example; env").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	for name, value := range set {
		if !slices.Contains(lines, name+"="+value) {
			t.Errorf("the shell does not read %s as systemd does: %s", name, out)
		}
	}
}
