// A job that finishes without lost ranks (FINISH): the requirements on what its results have summed, and on ranks that
// have been left out. coordinator.pml has the transition, leave_out().
//
// A rank that has stopped is lost, and so is one that the coordinator has given up although it lives (CUTS). That one is
// left out, too. It has its old version until it learns that: it still posts there, and takes completions.
//
// The survivors must agree: each round has the same verdict at all of them, and the contributions of the same ranks.
// What a rank has ended before it was left out binds nobody. So forget_ends() drops it.

// A rank that may be lost next: the last one that has not been lost.
#ifdef FINISH
#if RANKS == 2
#define MAY_BE_LOST(w) ((w) == 1 && !IS_LEFT_OUT(1))
#else
#define MAY_BE_LOST(w) \
  (!IS_LEFT_OUT(w) && ((w) == 2 || ((w) == 1 && (IS_LEFT_OUT(2) || rank[2].status >= SESSION_OVER))))
#endif
#define IS_QUORUM_LOST (COUNT(ALL & ~left_out) < QUORUM)

// Of each round that survivors have ended:
byte ended_by[ROUNDS + 1];   // these ranks
byte ended_set[ROUNDS + 1];  // well, with the contributions of these; 0: none has ended it well
// Of the rank that is lost first:
#define FIRST_LOST (RANKS - 1)
byte left_set[ROUNDS + 1];   // each round that it has ended well, with the contributions of these
byte first_without;          // the first round of the first version without it; 0: there is none yet
byte decided_first;          // of the last decision
#ifdef DEAD_COUNTED
byte said_next;              // its last report
#endif
hidden byte has_set, after;

#ifdef UNIFORM
#define MAY_DIFFER(k) false
#else
#define MAY_DIFFER(k) ((k) == first_without)
#endif

// At the end of round k at a rank, which has the result in its buffer.
inline compare_contributors(w, ok) {
  has_set = SET_OF(RESULT(w, 0));
  if
  :: !(ok)
  :: (ok) ->
     for (i : 0 .. PARTS - 1) {
       REQUIRE(contributors_mixed, SET_OF(RESULT(w, i)) == has_set)
     }
     REQUIRE(wrong_contributors, (has_set & BIT(w)) && COUNT(has_set) >= QUORUM);
#ifndef EAGER  // the application takes that completion later
     REQUIRE(wrong_contributors, carrier == 0 || has_set == MEMBERS(carrier));
#endif
     skip
  fi;
  if
  :: (ok) && IS_LEFT_OUT(w) && w == FIRST_LOST ->
     REQUIRE(left_out_succeeds, first_without == 0 || k <= first_without);
     REQUIRE(left_out_succeeds, ended_set[k] == 0 || ended_set[k] == has_set || MAY_DIFFER(k));
     REACHES_GOAL(GOAL_LATE_OK, ended_set[k] != 0 && ended_set[k] != has_set);
     left_set[k] = has_set
  :: !IS_LEFT_OUT(w) ->
     if
     :: (ok) ->
        REQUIRE(contributors_differ, ended_set[k] == 0 || ended_set[k] == has_set);
        REQUIRE(left_out_succeeds, left_set[k] == 0 || left_set[k] == has_set || MAY_DIFFER(k));
        REACHES_GOAL(GOAL_LEFT_OK, left_set[k] != 0 && left_set[k] != has_set);
        REACHES_GOAL(GOAL_WITHOUT, rank[w].was_interrupted && has_set != ALL);
        REACHES_GOAL(GOAL_WITH, rank[w].was_interrupted && (has_set & left_out));
        ended_set[k] = has_set
     :: else
     fi;
     ended_by[k] = ended_by[k] | BIT(w)
  :: else
  fi
}

inline forget_ends(w) {
  for (i : 1 .. ROUNDS) {
    if
    :: ended_by[i] & BIT(w) ->
       if
       :: w == FIRST_LOST -> left_set[i] = ended_set[i]
       :: else
       fi;
       ended_by[i] = ended_by[i] & ~BIT(w);
       if
       :: ended_by[i] == 0 -> ended_set[i] = 0; outcome[i] = 0
       :: else
       fi
    :: else
    fi
  }
}

inline note_first_without() {
  if
  :: first_without == 0 && !(MEMBERS(target) & BIT(FIRST_LOST)) -> first_without = decided_first
  :: else
  fi
}

// -- Rules that the protocol does not have, and mutants ------------------------------------------

// `after`: the first round that has not succeeded.
inline count_after() {
  if
  :: after > first_round -> first_round = after; has_succeeded = true
  :: else
  fi
}
inline count_more() {
#ifdef NODES_SAY
  // The survivors have fenced all nodes off. A node that says something ends the version first. Completions that it has
  // sent may still arrive.
  after = ROUNDS + 1;
  for (i : 0 .. PARTS - 1) {
    if
    :: IS_LOST(current, i) -> after = 0
    :: else ->
       SHARD(current, i).pushing = 0;
       SHARD(current, i).pushed = 0;
       after = (SHARD(current, i).done + 1 < after -> SHARD(current, i).done + 1 : after)
    fi
  }
  count_after();
#endif
#ifdef STANDS_FIRST
  for (j : 0 .. RANKS - 1) {
    after = (MEMBERS(target) & BIT(j) -> ROUNDS + 1 : 0);
    for (i : 0 .. PARTS - 1) {
      h = (SHARD(current, i).known & BIT(j) -> SHARD(current, i).done + 1 : 0);
      after = (h < after -> h : after)
    }
    count_after()
  }
#endif
#ifdef DEAD_COUNTED
  if
  :: said_next > first_round -> first_round = said_next; has_succeeded = true
  :: else
  fi;
#endif
  skip
}
// A message of a rank that has been left out changes nothing.
inline count_late(w) {
#ifdef DEAD_COUNTED
  if
  :: m_word == READY && w == FIRST_LOST -> said_next = m_round
  :: else
  fi;
#endif
  skip
}

// PostPlacement: an operation that needs a rank that the version leaves out ends at once.
inline end_without_needed(w) {
  if
  :: rank[w].status == POSTED && rank[w].version != 0 && rank[w].number == NEEDED &&
     !(MEMBERS(rank[w].version) & BIT(FIRST_LOST)) ->
     failed_rounds = failed_rounds | BIT(NEEDED);
     REACHES_GOAL(GOAL_NEEDED, true);
     finish_in_book(w, false)
  :: else
  fi
}

// The rank asks the coordinator, and hears that the job has no place for it.
inline learn_left_out(w) {
  EVENT("left_out rank=%d\n", w);
  end_session(w)
}
#else
#define MAY_BE_LOST(w) true
#endif
