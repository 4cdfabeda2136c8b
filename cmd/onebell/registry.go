package main

import (
	"maps"
	"slices"

	"github.com/onebell/onebell/channels"
)

// channelTypes is the registry of channel types: one line each.
func channelTypes() map[string]func() channelEnv {
	return map[string]func() channelEnv{
		"fcm":     func() channelEnv { return new(fcmEnv) },
		"smtp":    func() channelEnv { return new(smtpEnv) },
		"webhook": func() channelEnv { return new(webhookEnv) },
		"sandbox": func() channelEnv { return new(sandboxEnv) },
	}
}

func typeNames() []string { return slices.Sorted(maps.Keys(channelTypes())) }

// buildRegistry makes the channels of all configured instances.
func buildRegistry(c Config) (*channels.Registry, error) {
	var entries []channels.Entry
	for _, in := range c.instances {
		ch, err := in.env.build()
		if err != nil {
			return nil, configError(in.prefix + ": " + err.Error())
		}
		entries = append(entries, channels.Entry{Name: in.name, Type: in.typ, Channel: ch, Settings: in.env.settings()})
	}
	return channels.NewRegistry(entries...)
}
