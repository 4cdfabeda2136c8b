package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeRows is what the README's tables of variables must say, in the code's words.
func readmeRows(t *testing.T) []string {
	t.Helper()
	service, perType, err := envReference()
	if err != nil {
		t.Fatal(err)
	}
	row := func(v variable, meaning string) string {
		def := "—"
		if v.Default != "" {
			def = "`" + v.Default + "`"
		}
		return fmt.Sprintf("| `%s` | %s | %s |", v.Name, def, meaning)
	}
	var rows []string
	for _, v := range service {
		rows = append(rows, row(v, v.Meaning))
	}
	for _, typ := range typeNames() {
		for _, v := range perType[typ] {
			rows = append(rows, row(v, typ+": "+v.Meaning))
		}
	}
	return rows
}

func readme(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestReadmeTableIsTheCode(t *testing.T) {
	want := readmeRows(t)
	var got []string
	for line := range strings.Lines(readme(t)) {
		if strings.HasPrefix(line, "| `ONEBELL_") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("README.md has a row that the code does not know\n%s", row)
		}
	}
}

// Commands and flags that the documents show exist.
func TestDocumentsShowCommandsThatExist(t *testing.T) {
	root := newRoot(os.Stderr)
	for _, name := range []string{"../../README.md", "../../deploy/RUNBOOK.md", "../../deploy/onebell.service", "../../deploy/compose.yaml"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "\\\n", " ")
		for _, m := range regexp.MustCompile(`(?:cmd/onebell|\bonebell) ([a-z]+)((?: +[^\n|`+"`"+`]*)?)`).FindAllStringSubmatch(text, -1) {
			cmd, _, err := root.Find([]string{m[1]})
			if err != nil || cmd == root {
				continue // prose about onebell
			}
			if sub, _, err := cmd.Find(strings.Fields(m[2])); err == nil {
				cmd = sub
			}
			for _, flag := range regexp.MustCompile(`(?:^| )--([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
				if cmd.Flags().Lookup(flag[1]) == nil && flag[1] != "help" {
					t.Errorf("%s shows `onebell %s --%s`, which has no such flag", name, m[1], flag[1])
				}
			}
		}
	}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Example == "" {
			t.Errorf("onebell %s has no example", cmd.Name())
		}
	}
}
