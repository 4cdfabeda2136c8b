package dispatch

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// rule is one setting that matters.
type rule struct {
	name       string
	have, want any
	fix        string
}

// differ lists the rules that do not hold.
func differ(object string, rules []rule) []Difference {
	var out []Difference
	for _, r := range rules {
		if have, want := fmt.Sprint(r.have), fmt.Sprint(r.want); have != want {
			out = append(out, Difference{Object: object, Setting: r.name, Have: have, Want: want, Fix: r.fix})
		}
	}
	return out
}

const (
	recreate = "this cannot be changed in place: let the stream run empty, delete it and let the dispatcher create it"
	edit     = "change it with `nats stream edit`"
)

// streamRules lists what the dispatcher relies on. Replicas, placement, compression and size limits are the operator's.
func streamRules(have, want jetstream.StreamConfig) []rule {
	return []rule{
		{"subjects", slices.Sorted(slices.Values(have.Subjects)), want.Subjects, edit},
		{"retention", have.Retention, want.Retention, recreate},
		{"storage", have.Storage, want.Storage, recreate},
		{"discard", have.Discard, want.Discard, edit + " (a full request stream must refuse, never drop)"},
		{"max_age", have.MaxAge, want.MaxAge, edit},
		{"max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject, edit},
		{"max_msg_size", have.MaxMsgSize, want.MaxMsgSize, edit},
		{"duplicate_window", have.Duplicates, want.Duplicates, edit},
		{"deny_delete", have.DenyDelete, want.DenyDelete, recreate},
		{"deny_purge", have.DenyPurge, want.DenyPurge, recreate},
		{"allow_rollup_hdrs", have.AllowRollup, want.AllowRollup, edit},
		{"allow_msg_ttl", have.AllowMsgTTL, want.AllowMsgTTL, recreate},
		{"allow_msg_schedules", have.AllowMsgSchedules, want.AllowMsgSchedules, recreate},
		{"allow_msg_counter", have.AllowMsgCounter, want.AllowMsgCounter, recreate},
		{"no_ack", have.NoAck, want.NoAck, edit},
		{"sealed", have.Sealed, want.Sealed, recreate},
		{"mirror", have.Mirror != nil, false, recreate},
		{"sources", len(have.Sources), 0, edit + " (requests come from producers alone)"},
		{"subject_transform", have.SubjectTransform != nil, false, edit + " (it would change the caller)"},
		{"republish", have.RePublish != nil, false, edit + " (it would copy personal data)"},
	}
}

func consumerRules(have, want jetstream.ConsumerConfig) []rule {
	const replace = "delete the consumer (nothing is lost, unfinished requests are delivered again) and let the dispatcher create it"
	const change = "change it with `nats consumer edit`"
	return []rule{
		{"filter", filters(have), filters(want), replace},
		{"deliver_policy", have.DeliverPolicy, want.DeliverPolicy, replace},
		{"ack_policy", have.AckPolicy, want.AckPolicy, replace},
		{"replay_policy", have.ReplayPolicy, want.ReplayPolicy, replace},
		{"ack_wait", have.AckWait, want.AckWait, change},
		{"max_deliver", have.MaxDeliver, want.MaxDeliver, change},
		{"backoff", len(have.BackOff), 0, change + " (a back-off list replaces ack_wait)"},
		{"max_ack_pending", have.MaxAckPending, want.MaxAckPending, change},
		{"headers_only", have.HeadersOnly, false, change},
		{"inactive_threshold", have.InactiveThreshold, want.InactiveThreshold, change + " (the server would delete an unused consumer)"},
		{"deliver_subject", have.DeliverSubject, "", replace},
		{"rate_limit_bps", have.RateLimit, 0, change},
		{"max_batch", have.MaxRequestBatch, 0, change},
		{"max_bytes", have.MaxRequestMaxBytes, 0, change},
		{"priority_groups", len(have.PriorityGroups), 0, replace},
		{"paused", have.PauseUntil != nil, false, "end the pause with `nats consumer resume`"},
	}
}

func filters(c jetstream.ConsumerConfig) []string {
	if len(c.FilterSubjects) > 0 {
		return c.FilterSubjects
	}
	return []string{c.FilterSubject}
}
