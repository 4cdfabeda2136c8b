// Package dispatch carries a request from a NATS message to a settled intent.
package dispatch
