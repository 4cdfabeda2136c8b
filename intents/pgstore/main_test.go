package pgstore_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

var _ dispatch.Store = (*pgstore.Store)(nil)

func TestMain(m *testing.M) {
	// The walk beside the model costs some milliseconds a step; -rapid.checks=1000 walks longer.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}
