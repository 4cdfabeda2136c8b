package retention

import (
	"slices"
	"time"

	"github.com/onebell/onebell/intents"
)

// walk goes through the rows of one kind in their order, a page at a time, again and again. It remembers where the first row lies that
// did not go, so that it does not begin among what it has deleted: an index keeps the entries of deleted rows for a while.
// No row is ever made below that: keys behind the watermark are not taken in, and the rest is ordered by the time of its making.
type walk struct {
	after intents.PurgeMark // the next page begins behind this
	low   intents.PurgeMark // the next walk begins behind this
	kept  bool              // low was found on this walk
}

// step notes that a page was read and gone rows of it deleted, of which size had been asked for. It returns whether this walk goes on; if
// not, the next step begins a new one.
func (w *walk) step(page []intents.PurgeRow, gone, size int) (more bool) {
	if !w.kept && len(page) > 0 {
		if first, ok := firstKept(page, gone); ok {
			w.low, w.kept = first.Before(), true
		} else {
			w.low = page[len(page)-1].Mark
		}
	}
	if len(page) == size && size > 0 {
		w.after = page[len(page)-1].Mark
		return true
	}
	w.restart()
	return false
}

// restart begins a new walk with the next step.
func (w *walk) restart() { w.after, w.kept = w.low, false }

// firstKept is the first row of the page that did not go. Where fewer went than were ripe it is not known which, so it is the first one.
func firstKept(page []intents.PurgeRow, gone int) (intents.PurgeMark, bool) {
	if gone < len(ripe(page)) {
		return page[0].Mark, true
	}
	i := slices.IndexFunc(page, func(r intents.PurgeRow) bool { return !r.Ripe })
	if i < 0 {
		return intents.PurgeMark{}, false
	}
	return page[i].Mark, true
}

// ripe returns the rows of the page that may go.
func ripe(page []intents.PurgeRow) (marks []intents.PurgeMark) {
	for _, r := range page {
		if r.Ripe {
			marks = append(marks, r.Mark)
		}
	}
	return marks
}

// oldest is the greatest age of a row that may go; 0 if none may.
func oldest(page []intents.PurgeRow) (age time.Duration) {
	for _, r := range page {
		if r.Ripe {
			age = max(age, r.Age)
		}
	}
	return age
}
