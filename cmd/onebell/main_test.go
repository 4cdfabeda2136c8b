package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onebell/onebell/migrations/pgtest"
)

func TestMain(m *testing.M) {
	onebellIfChild()
	testscript.Main(withDatabase{m}, map[string]func(){"onebell": main})
}

// withDatabase stops the test binary's database server when the tests are over.
type withDatabase struct{ m *testing.M }

func (w withDatabase) Run() int { return pgtest.Main(w.m) }
