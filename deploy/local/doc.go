// Package local runs everything that onebell needs on one machine: PostgreSQL from the machine's binaries, NATS as a
// library, a mail inbox and a webhook receiver, and a wire in front of PostgreSQL that can be cut. It serves "onebell dev",
// "onebell demo", the crash campaign and the test kits; nothing here is meant for production.
//
// Whatever is started here dies with the process that started it, also when that process is killed (on Linux).
package local
