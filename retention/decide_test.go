package retention

import (
	"math"
	"testing"
	"time"

	"github.com/onebell/onebell/intents"
)

func TestKeysOutliveTheLastRetry(t *testing.T) {
	const h = time.Hour
	for _, test := range []struct {
		horizon, retry, lease, window, want time.Duration
	}{
		{72 * h, 24 * h, time.Minute, 0, 96*h + time.Minute},
		{72 * h, 24 * h, time.Minute, 24 * h, 120*h + time.Minute},
		{72 * h, 0, 0, 0, 72 * h},
		{72 * h, -h, 0, 0, 72 * h},
		{72 * h, math.MaxInt64 - h, time.Minute, 0, math.MaxInt64}, // no sum may come out small, or negative
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		if got := KeysAtLeast(test.horizon, test.retry, test.lease, test.window); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestWindowsThatCannotBeKept(t *testing.T) {
	const h = time.Hour
	for w, good := range map[Windows]bool{
		{Keys: 100 * h, Contents: 168 * h, Intents: 2160 * h}: true,
		{Keys: 100 * h, Contents: h, Intents: 100 * h}:        true,
		{Contents: h, Intents: 2 * h}:                         false,
		{Keys: h, Intents: 2 * h}:                             false,
		{Keys: h, Contents: h}:                                false,
		{Keys: 3 * h, Contents: h, Intents: 2 * h}:            false,
		{Keys: h, Contents: 3 * h, Intents: 2 * h}:            false,
		{Keys: -h, Contents: h, Intents: 2 * h}:               false,
	} {
		if err := w.check(); (err == nil) != good {
			t.Errorf("%+v: %v", w, err)
		}
	}
	for kind, want := range map[intents.PurgeKind]time.Duration{
		intents.PurgeKeys: 1, intents.PurgeContents: 2, intents.PurgeIntents: 3, intents.PurgeRefusals: 3,
	} {
		if got := (Windows{Keys: 1, Contents: 2, Intents: 3}).of(kind); got != want {
			t.Errorf("%s are kept %v, want %v", kind, got, want)
		}
	}
}

// Admissions are never held up for long, and left in peace four times as long between.
func TestPatienceIsBounded(t *testing.T) {
	var waited time.Duration
	for try := 1; try <= moveTries; try++ {
		wait, peace := patience(try)
		if peace != 4*wait || wait <= 0 || wait > 2*time.Second {
			t.Errorf("try %d: %v, then %v in peace", try, wait, peace)
		}
		waited += wait
	}
	if waited > 4*time.Second {
		t.Errorf("%v in all", waited)
	}
}

func TestRests(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 10 * time.Millisecond, time.Millisecond: 10 * time.Millisecond, 20 * time.Millisecond: 80 * time.Millisecond, time.Minute: 5 * time.Second,
	} {
		if got := rest(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

// A clock that is a year ahead would move the watermark there, and everything would be refused for a year.
func TestAClockThatMayBeWrong(t *testing.T) {
	host := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for gap, want := range map[time.Duration]bool{
		0: true, time.Hour: true, -time.Hour: true, 24 * time.Hour: true, 25 * time.Hour: false, -25 * time.Hour: false, 365 * 24 * time.Hour: false,
	} {
		if got := plausible(host.Add(gap), host); got != want {
			t.Errorf("a database that is %v ahead: believed %v", gap, got)
		}
	}
}

func TestAgesGrowWithoutALook(t *testing.T) {
	at := time.Now()
	if got := (sighting{time.Hour, at}).grown(at.Add(time.Minute)); got != 61*time.Minute {
		t.Errorf("%v", got)
	}
	if got := (sighting{0, at}).grown(at.Add(time.Minute)); got != 0 {
		t.Errorf("nothing waits, and its age is %v", got)
	}
}

func rows(ripeness string) (page []intents.PurgeRow) {
	for i, r := range ripeness {
		page = append(page, intents.PurgeRow{Mark: mark(0, byte(i)), Ripe: r == 'x', Age: time.Duration(i+1) * time.Minute})
	}
	return page
}

func mark(page, n byte) intents.PurgeMark { return intents.PurgeMark{ID: [16]byte{14: page, 15: n}} }

func TestWalk(t *testing.T) {
	shift := func(page []intents.PurgeRow, by byte) []intents.PurgeRow {
		for i := range page {
			page[i].Mark.ID[14] = by
		}
		return page
	}
	before := func(page, n byte) intents.PurgeMark { return mark(page, n).Before() }
	type stepped struct {
		page []intents.PurgeRow
		gone int
		more bool
		next intents.PurgeMark // where the next page begins
	}
	for name, steps := range map[string][]stepped{
		"all of it goes: the next walk begins behind it": {
			{shift(rows("xxx"), 1), 3, true, mark(1, 2)}, {shift(rows("xx"), 2), 2, false, mark(2, 1)},
		},
		"some stay: the next walk begins with the first of them": {
			{shift(rows("x.x"), 1), 2, true, mark(1, 2)},
			{shift(rows("..."), 2), 0, true, mark(2, 2)},
			{shift(rows("x"), 3), 1, false, before(1, 1)},
			{shift(rows(".x"), 1), 1, false, before(1, 0)},
		},
		"fewer went than might: it is not known which": {
			{shift(rows("xxx"), 1), 2, true, mark(1, 2)}, {nil, 0, false, before(1, 0)},
		},
		"a page that is just full": {
			{shift(rows("xxx"), 1), 3, true, mark(1, 2)}, {nil, 0, false, mark(1, 2)}, {shift(rows("x"), 2), 1, false, mark(2, 0)},
		},
		"nothing, ever": {{nil, 0, false, intents.PurgeMark{}}, {nil, 0, false, intents.PurgeMark{}}},
		"what stayed is gone when it is come back to": {
			{shift(rows(".x"), 1), 1, false, before(1, 0)}, {shift(rows("x"), 2), 1, false, mark(2, 0)},
		},
	} {
		w := walk{}
		for i, s := range steps {
			if more := w.step(s.page, s.gone, 3); more != s.more || w.after != s.next {
				t.Errorf("%s, step %d: more %v, then from %v; want %v, %v", name, i, more, w.after, s.more, s.next)
			}
		}
	}
	if age := oldest(rows(".xx.")); age != 3*time.Minute {
		t.Errorf("the oldest ripe one is %v old", age)
	}
	if got := len(ripe(rows(".x.x"))); got != 2 {
		t.Errorf("%d ripe ones", got)
	}
}

func TestTheMarkBefore(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	var last [16]byte
	for i := range last {
		last[i] = 0xff
	}
	for m, want := range map[intents.PurgeMark]intents.PurgeMark{
		{At: at, ID: [16]byte{15: 7}}:       {At: at, ID: [16]byte{15: 6}},
		{At: at, ID: [16]byte{14: 1}}:       {At: at, ID: [16]byte{15: 0xff}},
		{At: at, ID: [16]byte{0: 1, 15: 0}}: {At: at, ID: [16]byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
		{At: at}:                            {At: at.Add(-time.Microsecond), ID: last},
		{}:                                  {},
	} {
		if got := m.Before(); got != want {
			t.Errorf("before %v: %v, want %v", m, got, want)
		}
	}
}
