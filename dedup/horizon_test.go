package dedup

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones below must be there on every machine

	"pgregory.net/rapid"
)

func TestHorizonEnds(t *testing.T) {
	h := Horizon{Age: 72 * time.Hour, Future: 5 * time.Minute}
	for _, tc := range []struct {
		at   time.Time
		want Timeliness
	}{
		{noon, InTime},
		{noon.Add(-72 * time.Hour), InTime},
		{noon.Add(-72*time.Hour - time.Microsecond), TooOld},
		{noon.Add(-72*time.Hour + time.Microsecond), InTime},
		{noon.Add(5 * time.Minute), InTime},
		{noon.Add(5*time.Minute + time.Microsecond), TooFuture},
		{time.Time{}, TooOld},
	} {
		if got := h.Admits(tc.at, noon); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.at, got, tc.want)
		}
	}
	if Timeliness(0).String() == InTime.String() {
		t.Error("no answer reads like a good one")
	}
}

// O5: the horizon is a duration. Around the hours that local clocks skip or repeat, three days are 72 hours.
func TestO5HorizonKnowsNoLocalDays(t *testing.T) {
	h := Horizon{Age: 72 * time.Hour, Future: 5 * time.Minute}
	for _, zone := range []string{"Europe/Berlin", "America/New_York"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, now := range []time.Time{
			time.Date(2026, 3, 29, 2, 30, 0, 0, loc), time.Date(2026, 3, 31, 2, 30, 0, 0, loc), time.Date(2026, 3, 8, 2, 30, 0, 0, loc),
			time.Date(2026, 10, 25, 2, 30, 0, 0, loc), time.Date(2026, 10, 27, 2, 30, 0, 0, loc), time.Date(2026, 11, 1, 1, 30, 0, 0, loc),
		} {
			oldest := now.UTC().Add(-72 * time.Hour)
			if got := h.Admits(oldest.In(loc), now); got != InTime {
				t.Errorf("%v: a fact of 72 hours ago is %v", now, got)
			}
			if got := h.Admits(oldest.Add(-time.Microsecond).In(loc), now); got != TooOld {
				t.Errorf("%v: a fact of more than 72 hours ago is %v", now, got)
			}
			if got := h.Admits(now.UTC().Add(5*time.Minute+time.Microsecond).In(loc), now); got != TooFuture {
				t.Errorf("%v: a fact in more than five minutes is %v", now, got)
			}
		}
	}
}

func TestO5HorizonKnowsNoOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Horizon{Age: time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "age")), Future: 5 * time.Minute}
		ago := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(1001*time.Hour)).Draw(t, "ago"))
		offset := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "offset"))
		want := InTime
		switch {
		case ago > h.Age:
			want = TooOld
		case ago < -h.Future:
			want = TooFuture
		}
		if got := h.Admits(noon.Add(-ago).In(offset), noon); got != want {
			t.Fatalf("age %v of %v: %v, want %v", ago, h.Age, got, want)
		}
	})
}
