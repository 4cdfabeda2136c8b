// Package admin answers operators over HTTP: what became of an intent, why, and what to do next.
//
// Three rules hold for every route:
//
//   - Nothing but /healthz and /readyz answers without a token, except to this machine itself (see CheckExposure).
//   - A token sees one caller's intents or everybody's. What it may not see does not exist for it: it is answered as absent.
//   - Below the role operator recipients are masked. No recipient reaches a log line: of a query only the path is logged.
//
// Reading changes nothing. Its cost is bounded: pages are, and so are the time and the number of requests that read at once,
// so that a busy console takes no connection from dispatching.
package admin
