package intents

import "errors"

// ErrUnstorable says that the database will never take a value of the call: another try with the same arguments will not help.
// Every other error of a store says nothing about the arguments.
var ErrUnstorable = errors.New("the database will not take a value")
