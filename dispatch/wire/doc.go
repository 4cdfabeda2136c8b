// Package wire is the contract with producers: subjects, headers, requests, replies, events and their codes.
//
// Requests are read strictly, so that nothing a producer wrote is silently ignored; replies and events are read leniently, so that
// an older producer understands a newer dispatcher. The files in testdata are the contract by example. Nothing here does I/O, and
// no error repeats a value that a producer sent.
package wire
