/* The protocol of one fact, for SPIN: two workers, a clock that may end a lease at any step, a provider that may lose any reply, an
 * operator, a purge. `.ci/spin` checks every configuration exhaustively, and that the broken ones are found out. A test holds the
 * edges named here ("edge: a -> b") against those of the code.
 *
 *   G        0 keyed, 1 replaceable, 2 duplicate-visible
 *   REV      a second revision of the fact is admitted at some time
 *   OP       operators decide, redrive and cancel; two of them may look at one page
 *   PURGE    the key falls behind the watermark, is forgotten, and producers tell the fact again and again
 *   WINDOW   the key window ends at some time: first by the service's reckoning, then by the provider's
 *
 * and the faults, each of which has to be found: NOFENCE, RESEND, NODOUBT, NOSTARTBY, STALEPAGE, PURGEAHEAD, LATEWINDOW.
 * A worker stands still for any time at every step; it dies where it goes back to its loop without a word.
 */
#ifndef G
#define G 2
#endif
#ifndef MAXGEN
#define MAXGEN 5
#endif

mtype = { none, pending, sending, succeeded, rejected, unknown, expired, superseded, cancelled, exhausted, abandoned };
mtype = { accepted, refused, notsent, lost };

mtype st[2] = none;
byte gen[2];
bool leased[2], doubt[2], newer[2], vouched[2]; /* newer: a newer revision is admitted; vouched: evidence of acceptance during a send */
byte doubts[2];      /* attempts in doubt */
byte applied[2];     /* effects that a recipient sees; a replaced one does not count again */
byte deliberate = 0; /* resends that an operator chose */
bool begun1 = false; /* an attempt of the newer revision has begun */
byte admits = 0;     /* times that revision 0 was taken for new */
bool key = false, behind = false, wasSettled = false;
bool svcOpen = true, provOpen = true; /* the key window, as the service reckons it and as it is */
byte decisions = 0;
byte flying = 0;     /* attempts that have begun and not ended */

#define TERMINAL(s) (s == succeeded || s == rejected || s == expired || s == superseded || s == cancelled || s == exhausted || s == abandoned)
/* A repeat that the provider drops, because it knows the key, or that replaces what is shown. */
#define KNOWN(n) ((G == 0 && applied[n] > 0 && provOpen) || (G == 1 && applied[n] > 0))
#define REPEATABLE (G == 1 || (G == 0 && svcOpen))

/* Every write of a state goes through here: what has ended stays as it is. */
inline set(i, s) {
  assert(!TERMINAL(st[i]));
  st[i] = s;
  if :: s == succeeded -> assert(applied[i] > 0) :: else fi
}

inline admit() {
  atomic {
    if
    :: key -> skip                                /* a duplicate, whatever became of it */
    :: !key && behind -> skip                     /* refused: stale */
    :: !key && !behind ->
       admits++; assert(admits == 1);
       key = true; st[0] = pending; gen[0] = 0    /* edge:  -> pending */
    :: !key && !behind && G == 0 ->
       admits++; assert(admits == 1);
       key = true; st[0] = sending; gen[0] = 1; leased[0] = true /* edge:  -> sending */ /* its claimer dies at once: the hardest case */
    fi
  }
}

/* What a settlement makes of "go back to pending". */
inline back(i) {
  if
  :: vouched[i] -> set(i, succeeded)
  :: !vouched[i] && !newer[i] -> set(i, pending)              /* edge: sending -> pending */
  :: !vouched[i] && newer[i] && doubt[i] -> set(i, unknown)   /* edge: sending -> unknown */
  :: !vouched[i] && newer[i] && !doubt[i] -> set(i, superseded) /* edge: sending -> superseded */
  fi
}

inline park(i) {
  if :: vouched[i] -> set(i, succeeded) :: !vouched[i] -> set(i, unknown) fi
}

inline inDoubt(i) {
#ifndef NODOUBT
  if :: !doubt[i] -> doubts[i] = 0 :: else fi;
  doubt[i] = true;
#endif
  doubts[i]++
}

/* The outcome of an attempt, written by whoever still holds the claim. */
inline settle(i, o) {
  if
  :: o == accepted -> set(i, succeeded); doubt[i] = false   /* edge: sending -> succeeded */
  :: o == refused && !doubt[i] && !vouched[i] -> set(i, rejected) /* edge: sending -> rejected */
  :: o == refused && (doubt[i] || vouched[i]) -> park(i)
  :: o == notsent -> back(i)
  :: o == notsent && !doubt[i] && !vouched[i] -> set(i, exhausted) /* edge: sending -> exhausted */
  :: o == notsent && !doubt[i] && !vouched[i] -> set(i, expired)   /* edge: sending -> expired */
  :: o == lost && REPEATABLE && !newer[i] -> inDoubt(i); back(i)
  :: o == lost && !(REPEATABLE && !newer[i]) -> inDoubt(i); park(i)
  fi
}

/* The outcome of an attempt whose claim is gone: evidence. */
inline witness(i, o, my) {
  if
  :: o == accepted && (st[i] == unknown || (st[i] == pending && doubt[i])) ->
     set(i, succeeded); doubt[i] = false           /* edge: unknown -> succeeded */ /* edge: pending -> succeeded */
  :: o == accepted && st[i] == sending -> vouched[i] = true
  :: (o == notsent || o == refused) && st[i] == unknown && doubts[i] == 1 && gen[i] == my + 1 ->
     doubt[i] = false; doubts[i] = 0;
     if
     :: o == refused -> set(i, rejected)           /* edge: unknown -> rejected */
     :: o == notsent && newer[i] -> set(i, superseded) /* edge: unknown -> superseded */
     :: o == notsent && !newer[i] -> set(i, pending) /* edge: unknown -> pending */
     fi
  :: else -> skip
  fi
}

/* The provider, and what the worker hears of it. */
inline provide(i, o) {
  if
  :: o = notsent
  :: o = refused
  :: o = lost
  :: KNOWN(i) -> o = accepted
  :: KNOWN(i) -> o = lost
  :: !KNOWN(i) -> applied[i]++; assert(applied[i] <= 1 + deliberate); o = accepted
  :: !KNOWN(i) -> applied[i]++; assert(applied[i] <= 1 + deliberate); o = lost
  fi
}

proctype Worker() {
  byte my = 0, i = 0;
  mtype o;
end:
  do
  :: atomic { st[0] == pending && gen[0] < MAXGEN -> i = 0; st[0] = sending; gen[0]++; my = gen[0]; leased[0] = true; goto claimed } /* edge: pending -> sending */
#ifdef REV
  :: atomic { st[1] == pending && gen[1] < MAXGEN && st[0] != sending -> i = 1; st[1] = sending; gen[1]++; my = gen[1]; leased[1] = true; goto claimed }
  :: atomic { st[1] == sending && !leased[1] && gen[1] < MAXGEN -> i = 1; gen[1]++; my = gen[1]; leased[1] = true; inDoubt(1); goto taken }
#endif
  :: atomic { st[0] == sending && !leased[0] && gen[0] < MAXGEN -> i = 0; gen[0]++; my = gen[0]; leased[0] = true; inDoubt(0); goto taken } /* edge: sending -> sending */
  od;

claimed:
  if
  :: skip
  :: goto end                                      /* dies before the effect */
  fi;
  atomic { /* a repeat that is not allowed any more is not begun, nor anything after the lease */
    if
    :: doubt[i] && !REPEATABLE ->
       if :: gen[i] == my && st[i] == sending -> park(i) :: else -> skip fi; goto end
#ifndef NOSTARTBY
    :: !(doubt[i] && !REPEATABLE) && !(leased[i] && gen[i] == my) -> o = notsent; goto settling /* by its own clock: the lease is over before anybody takes it */
#endif
    :: else ->
       flying++;
       assert(i == 1 || !begun1);
       if :: i == 1 -> begun1 = true :: else fi
    fi
  }
  if
  :: atomic { flying--; goto end }                 /* dies with the effect begun and nothing written */
  :: atomic { provide(i, o); flying-- }
  fi;
  if
  :: skip
  :: goto end                                      /* dies with the outcome in its hand */
  fi;

settling:
  atomic {
    if
#ifdef NOFENCE
    :: true -> settle(i, o)
#else
    :: gen[i] == my && st[i] == sending -> settle(i, o)
    :: else -> witness(i, o, my)
#endif
    fi
  }
  goto end;

taken:
  if
  :: skip
  :: goto end                                      /* dies having taken over */
  fi;
  atomic {
    if
    :: gen[i] == my && st[i] == sending ->
       if
#ifdef RESEND
       :: true -> back(i)
#else
       :: REPEATABLE && !newer[i] -> back(i)
       :: !(REPEATABLE && !newer[i]) -> park(i)
#endif
       fi
    :: else -> skip
    fi
  }
  goto end
}

/* Leases end by the database's clock. */
proctype Clock() {
end:
  do
  :: atomic { leased[0] && st[0] == sending -> leased[0] = false }
#ifdef REV
  :: atomic { leased[1] && st[1] == sending -> leased[1] = false }
#endif
#ifdef WINDOW
  :: atomic { svcOpen -> svcOpen = false }
#ifdef LATEWINDOW
  :: atomic { provOpen -> provOpen = false }
#else
  /* the margin: no attempt that began inside the window is still on its way when the provider forgets */
  :: atomic { !svcOpen && provOpen && flying == 0 -> provOpen = false }
#endif
#endif
  od
}

#ifdef REV
proctype Reviser() {
  atomic {
    st[0] != none -> st[1] = pending; newer[0] = true;
    if
    :: st[0] == pending && doubt[0] -> set(0, unknown)     /* edge: pending -> unknown */
    :: st[0] == pending && !doubt[0] -> set(0, superseded) /* edge: pending -> superseded */
    :: else -> skip
    fi
  }
}
#endif

#ifdef OP
proctype Operator() {
  byte seen;
end:
  do
  :: atomic { decisions < 2 && st[0] == unknown -> seen = gen[0] };
     atomic {
       if
#ifdef STALEPAGE
       :: true ->
#else
       :: st[0] == unknown && gen[0] == seen ->
#endif
          decisions++; gen[0]++;
          if
          :: applied[0] > 0 -> set(0, succeeded)   /* "delivered", which the operator has seen */
          :: set(0, abandoned)                     /* edge: unknown -> abandoned */
          :: !newer[0] ->
             if :: !(G == 0 && svcOpen) -> deliberate++ :: else fi;
             doubt[0] = (G == 0); set(0, pending)
          :: newer[0] -> set(0, superseded)
          fi
#ifndef STALEPAGE
       :: else -> skip                             /* told what happened instead */
#endif
       fi
     }
  :: atomic { st[0] == pending && !doubt[0] -> set(0, cancelled) } /* edge: pending -> cancelled */
  :: atomic { st[0] == exhausted && decisions < 2 && gen[0] < MAXGEN && !newer[0] -> decisions++; st[0] = pending } /* edge: exhausted -> pending */
  :: atomic { st[0] == pending && doubt[0] -> set(0, unknown) }   /* expired in doubt */
  :: atomic { st[0] == pending && !doubt[0] -> set(0, expired) }  /* edge: pending -> expired */
  :: atomic { st[0] == pending && G == 0 && gen[0] < MAXGEN && !doubt[0] -> inDoubt(0); gen[0]++ } /* edge: pending -> pending */ /* the mark of a restored database */
  od
}
#endif

#ifdef PURGE
#define TIMES 3
#else
#define TIMES 1
#endif
proctype Producer() {
  byte told = 0;
  do
  :: told < TIMES -> admit(); told++
  :: told == TIMES -> break
  od
}

#ifdef PURGE
proctype Purge() {
#ifdef PURGEAHEAD
  atomic { key && (TERMINAL(st[0])) -> key = false; wasSettled = true }
  behind = true
#else
  behind = true;                                   /* first the watermark … */
end:
  atomic { key && TERMINAL(st[0]) -> key = false } /* … then what is behind it, once it is settled */
#endif
}
#endif

#define ENDED(n) (st[n] == none || TERMINAL(st[n]) || st[n] == unknown || gen[n] >= MAXGEN)

/* When nobody can do anything any more, nothing is left that somebody would have to look at. */
proctype Watch() {
  timeout -> assert(ENDED(0) && (ENDED(1) || (st[0] == sending && gen[0] >= MAXGEN))) /* the bound is the model's */
}

init {
  atomic {
    run Producer(); run Worker(); run Worker(); run Clock(); run Watch();
#ifdef REV
    run Reviser();
#endif
#ifdef OP
    run Operator();
#endif
#ifdef PURGE
    run Purge();
#endif
  }
}
