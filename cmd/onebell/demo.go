package main

import (
	"os"

	"github.com/spf13/cobra"
)

func newDemo(*os.File) *cobra.Command { return &cobra.Command{Use: "demo"} }
func newDev(*os.File) *cobra.Command  { return &cobra.Command{Use: "dev"} }
