package main

import "context"

// check compares what was promised with what was done.
func check(ctx context.Context, e evidence) []violation { return nil }
