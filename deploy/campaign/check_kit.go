package main

import "context"

// check compares what was promised with what was done.
func check(ctx context.Context, e evidence) []violation { return nil }

// summary is what the table says of a round, or of all of them together.
type summary struct {
	intents                      int
	effects                      int // that the providers applied and somebody could see
	keyedTwice, replaceableTwice int // facts that were seen twice, by guarantee
	visibleTwice                 int
	possible                     int // resends that the service itself counted as possible duplicates
	unknown, unexplained         int // intents that ended UNKNOWN; those of them that no fault on the wire explains
}

// add sums up rounds.
func (s *summary) add(o summary) {
	s.intents += o.intents
	s.effects += o.effects
	s.keyedTwice += o.keyedTwice
	s.replaceableTwice += o.replaceableTwice
	s.visibleTwice += o.visibleTwice
	s.possible += o.possible
	s.unknown += o.unknown
	s.unexplained += o.unexplained
}

// summarize counts what a round did.
func summarize(ctx context.Context, e evidence) (summary, error) { return summary{}, nil }
