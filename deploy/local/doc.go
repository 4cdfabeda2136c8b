// Package local runs everything that onebell needs on one machine: PostgreSQL from the machine's binaries, NATS as a
// library, a mail inbox and a webhook receiver. It serves "onebell dev", "onebell demo" and the test kits; nothing here
// is meant for production.
//
// Whatever is started here dies with the process that started it, also when that process is killed (on Linux).
package local
