package main

import (
	"maps"
	"slices"

	"github.com/onebell/onebell/channels"
)

// channelTypes is the registry of channel types: one line each.
func channelTypes() map[string]func() channelEnv {
	return map[string]func() channelEnv{
		"smtp":    func() channelEnv { return new(smtpEnv) },
		"webhook": func() channelEnv { return new(webhookEnv) },
		"sandbox": func() channelEnv { return new(sandboxEnv) },
	}
}

func typeNames() []string { return slices.Sorted(maps.Keys(channelTypes())) }

// channelDeps is what channels are built with, beside their variables.
type channelDeps struct{}

func (e *smtpEnv) build(string, channelDeps) (channels.Channel, error)    { return nil, nil }
func (e *webhookEnv) build(string, channelDeps) (channels.Channel, error) { return nil, nil }
func (e *sandboxEnv) build(string, channelDeps) (channels.Channel, error) { return nil, nil }
