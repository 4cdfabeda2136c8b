package main

import (
	"flag"
	"fmt"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onebell/onebell/migrations/pgtest"
)

func TestMain(m *testing.M) {
	onebellIfChild()
	testscript.Main(withDatabase{m}, map[string]func(){"onebell": main})
}

// withDatabase stops the test binary's database server when the tests are over, and removes what they built.
type withDatabase struct{ m *testing.M }

func (w withDatabase) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // those that are parallel wait more than they work
		panic(err)
	}
	code := pgtest.Main(w.m)
	if err := forgetBinary(); err != nil {
		fmt.Println(err)
		code = max(code, 1)
	}
	return code
}
