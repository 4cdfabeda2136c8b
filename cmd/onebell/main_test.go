package main

import (
	"os"
	"testing"

	"github.com/onebell/onebell/migrations/pgtest"
)

func TestMain(m *testing.M) {
	onebellIfChild()
	os.Exit(pgtest.Main(m))
}
