package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onebell/onebell/intents/fault"
)

func TestSeedDecidesTheSchedule(t *testing.T) {
	schedule := func(seed uint64) (out []string) {
		r := &round{seed: seed, lease: leaseTime}
		for slot := range dispatchers {
			for _, l := range r.firstLives(slot) {
				out = append(out, fmt.Sprint(l))
			}
			rnd := r.rnd(fmt.Sprint("slot ", slot))
			for range 50 {
				out = append(out, fmt.Sprint(drawLife(rnd)))
			}
		}
		return out
	}
	if !slices.Equal(schedule(7), schedule(7)) {
		t.Error("one seed gives two schedules")
	}
	if slices.Equal(schedule(7), schedule(8)) {
		t.Error("two seeds give one schedule")
	}
}

// Whatever is drawn is a plan that the binary under test understands.
func TestPlansNamePoints(t *testing.T) {
	form := regexp.MustCompile(`^([a-z.]+):[1-9][0-9]*:(kill|stop)$`)
	for seed := range uint64(200) {
		r := &round{seed: seed, lease: leaseTime}
		lives := slices.Concat(r.firstLives(0), r.firstLives(1), r.firstLives(2))
		for range 20 {
			lives = append(lives, drawLife(r.rnd("life")))
		}
		for _, l := range lives {
			for part := range strings.SplitSeq(l.plan, ",") {
				m := form.FindStringSubmatch(part)
				if l.plan != "" && (m == nil || !slices.Contains(fault.All(), fault.Point(m[1]))) {
					t.Fatalf("seed %d: the plan %q is none", seed, l.plan)
				}
			}
		}
	}
}

// A few seeds see to every fault point that a round can pass.
func TestShortCampaignPlansEveryPoint(t *testing.T) {
	var planned []string
	for seed := uint64(1); seed <= shortSeeds; seed++ {
		for slot := range dispatchers {
			r := &round{seed: seed, lease: leaseTime}
			for _, l := range r.firstLives(slot) {
				planned = append(planned, l.plan)
			}
		}
	}
	for _, point := range reachable {
		if !strings.Contains(strings.Join(planned, " "), string(point)+":") {
			t.Errorf("no seed sees to %s", point)
		}
	}
}
