package pgstore_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

const (
	canary     = "canary@example.org"
	canaryText = "the canary's order"
)

// canaryHash is what the kit keeps of the recipient.
var canaryHash = func() []byte { h := sha256.Sum256([]byte(canary)); return h[:] }()

func toCanary(a *intents.Admission) {
	a.Meaning.Recipient, a.Rendered = canary, []byte("To: "+canary)
	a.Meaning.Content, a.Labels = []byte(`"`+canaryText+`"`), map[string]string{"who": canary}
}

// dump is every value of every table, as text.
func (b *bench) dump() string {
	b.t.Helper()
	rows, _ := b.db.Query(b.ctx, `select tablename from pg_tables where schemaname = current_schema() and tablename not like 'goose%' order by 1`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	var all strings.Builder
	for _, table := range tables {
		all.WriteString(one[string](b, `select coalesce(string_agg(r, E'\n' order by r), '') from (select t::text || coalesce((select string_agg(convert_from(c.rendered, 'UTF8'), ' ')
			from contents c where to_jsonb(t) ->> 'intent_id' = c.intent_id::text and '`+table+`' = 'contents'), '') as r from `+pgx.Identifier{table}.Sanitize()+` t) x`))
	}
	return all.String()
}

func (b *bench) erase(e intents.Erasure) intents.Erased {
	b.t.Helper()
	e.Act, e.Hashes = byHand, [][]byte{canaryHash}
	done, err := b.Erase(b.ctx, e)
	if err != nil {
		b.t.Fatal(err)
	}
	return done
}

// mustForget fails the test where the canary stands in any column of any table.
func (b *bench) mustForget() {
	b.t.Helper()
	all := b.dump()
	for _, trace := range []string{canary, canaryText} {
		if n := strings.Count(all, trace); n > 0 {
			b.t.Errorf("%q stands in the database %d times", trace, n)
		}
	}
}

func TestErasedRecipientsAreNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.admit(ask("e:sent", 0, toCanary), ask("e:unknown", 0, toCanary), ask("e:other", 0))
	for _, c := range b.claim(me, 10) {
		switch string(c.Identity.Key) {
		case "e:sent":
			b.settle(succeeded(c, me))
		case "e:unknown":
			b.settle(parked(c, me))
		default:
			b.settle(handBack(c, me))
		}
	}
	b.admit(ask("e:flying", 0, toCanary))
	for _, c := range b.claim(me, 10) {
		if string(c.Identity.Key) == "e:other" {
			b.settle(handBack(c, me))
		}
	}
	b.admit(ask("e:waiting", 0, toCanary))
	if !strings.Contains(b.dump(), canary) {
		t.Fatal("the search for the canary finds nothing")
	}

	before := b.dump()
	if dry := b.erase(intents.Erasure{DryRun: true, CancelOpen: true}); dry.Found != 4 || dry.Erased != 3 || len(dry.Cancelled) != 1 {
		t.Errorf("a dry run says %+v", dry)
	}
	if b.dump() != before {
		t.Error("a dry run changed something")
	}
	first := b.erase(intents.Erasure{})
	if first.Found != 4 || first.Erased != 2 || len(first.Unknown) != 1 || len(first.Left) != 2 || len(first.Cancelled) != 0 {
		t.Errorf("erased %+v", first)
	}
	b.wantState("e:waiting", 0, intents.Pending)
	second := b.erase(intents.Erasure{CancelOpen: true})
	if second.Erased != 1 || len(second.Cancelled) != 1 || len(second.Left) != 1 || second.Left[0].State != intents.Sending {
		t.Errorf("erased %+v", second)
	}
	b.wantState("e:waiting", 0, intents.Cancelled)
	b.settle(succeeded(intents.Claim{ID: b.find("e:flying", 0).ID, Generation: b.find("e:flying", 0).Generation}, me))
	if third := b.erase(intents.Erasure{}); third.Erased != 1 || len(third.Left) != 0 {
		t.Errorf("erased %+v", third)
	}
	if fourth := b.erase(intents.Erasure{}); fourth.Erased != 0 || fourth.Found != 4 {
		t.Errorf("nothing is left, and it erased %+v", fourth)
	}

	b.mustForget()
	if v := b.admit(ask("e:sent", 0, toCanary))[0]; v.Kind != intents.Duplicate {
		t.Errorf("the fact is %s after its recipient was forgotten", v.Kind)
	}
	if n := one[int](b, `select count(*) from audit where what = 'erase' and $1 = any(targets) and actor = 'ada'`, canaryHash); n != 4 {
		t.Errorf("%d rows in the audit, want one for each of 4 runs", n)
	}
	b.holds()
}
