package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// networkFaults disturbs the links between dispatchers, broker and database.
type networkFaults struct {
	brokers, databases []*link // by dispatcher
	rnd                *rand.Rand
	record             *record
}

// run disturbs one link after the other until ctx ends; each is mended before the next.
func (f *networkFaults) run(ctx context.Context) error {
	for pause(ctx, between(f.rnd, 200*time.Millisecond, 1200*time.Millisecond)) {
		k, to := pick(f.rnd, f.brokers), "broker"
		if f.rnd.IntN(2) == 0 {
			k, to = pick(f.rnd, f.databases), "database"
		}
		way, long := f.rnd.IntN(5), between(f.rnd, 300*time.Millisecond, 3*time.Second)
		switch way {
		case 0, 1:
			if k.cut() > 0 {
				f.record.add("F9 link to the " + to + " cut")
			}
		case 2:
			if refused := k.refuse(true); refused > 0 {
				f.record.add("F9 link to the " + to + " down")
			}
			pause(ctx, long)
			k.refuse(false)
		case 3:
			f.blackHole(ctx, k, long, "F9 link to the "+to+" black-holed, one way", direction(f.rnd.IntN(2)))
		default:
			f.blackHole(ctx, k, long, "F9 link to the "+to+" black-holed", towards, back)
		}
	}
	return nil
}

// blackHole keeps what is sent, so that nobody answers and nothing breaks.
func (f *networkFaults) blackHole(ctx context.Context, k *link, long time.Duration, kind string, ways ...direction) {
	for _, d := range ways {
		k.hold(d)
	}
	pause(ctx, long)
	kept := 0
	for _, d := range ways {
		kept += k.release(d)
	}
	if kept > 0 {
		f.record.add(kind)
	}
}

// swizzle stops the links one by one and restores them in another order, a few times, until ctx ends.
func (f *networkFaults) swizzle(ctx context.Context) error {
	links := append(append([]*link{}, f.brokers...), f.databases...)
	for pause(ctx, between(f.rnd, 2*time.Second, 8*time.Second)) {
		chosen := f.rnd.Perm(len(links))[:2+f.rnd.IntN(len(links)-2)]
		step := between(f.rnd, 50*time.Millisecond, 400*time.Millisecond)
		restore := f.rnd.Perm(len(chosen))
		for _, n := range chosen {
			if links[n].refuse(true) > 0 {
				f.record.add("F21 swizzle: link stopped")
			}
			pause(ctx, step)
		}
		for _, n := range restore {
			links[chosen[n]].refuse(false)
			pause(ctx, step)
		}
	}
	return nil
}
