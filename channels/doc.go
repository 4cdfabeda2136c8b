// Package channels says what a provider can promise and how one send can end.
//
// A channel declares a Contract once; policy elsewhere is derived from it. One attempt ends in exactly one Outcome,
// and its zero value is "unknown": "not sent" and "accepted" are said only when they are proven.
// The subfolders hold one adapter each; channeltest is the conformance kit that every adapter passes.
package channels
