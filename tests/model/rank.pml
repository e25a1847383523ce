// A rank: the application and its libtally. It stands for client/session/session.h and session_repair.h,
// client/operations/operation_book.h, post_placement.h, pending_operations.h and plan_switch.h, and
// client/plans/plan_change.h. Each step is one that the session makes between two calls of the application, or in one.

// What a rank says to a coordinator that has stopped is lost.
inline report(w, word, about, next_round, fails, keeps) {
  if
  :: IS_AWAY(w)
  :: else -> to_coordinator[w] ! word, about, next_round, fails, keeps
  fi
}
inline send(w, word, about) { report(w, word, about, 0, 0, 0) }

// -- Access --------------------------------------------------------------------------------------

inline close_shard(w, v, p) {
  SHARD(v, p).open = SHARD(v, p).open & ~BIT(w);
  if
  :: SHARD(v, p).open == 0 ->  // it cannot do anything any more
     SHARD(v, p).pushing = 0;
     SHARD(v, p).pushed = 0;
#if !defined(NODES_SAY) && !defined(STANDS_FIRST)
     SHARD(v, p).done = 0;
#endif
     SHARD(v, p).failed = 0;
     SHARD(v, p).right = false
  :: else
  fi
}
inline close_version(w, v) {
  if
  :: (v) != 0 ->
     for (i : 0 .. PARTS - 1) {
       close_shard(w, v, i)
     }
  :: else
  fi
}
// PlanVersions::fence(): nothing of these nodes lands or counts afterwards.
inline fence_version(w, v) {
#ifdef NO_FENCE
  skip
#else
#ifdef FENCES_LOST_ONLY
  if
  :: (v) != 0 ->
     for (i : 0 .. PARTS - 1) {
       if
       :: IS_LOST(v, i) -> close_shard(w, v, i)
       :: else
       fi
     }
  :: else
  fi
#else
  close_version(w, v)
#endif
#endif
}

inline excuse(which) {
  failed_rounds = failed_rounds | BIT(which);
  excused_rounds = excused_rounds | BIT(which)
}

// -- The end of an operation ---------------------------------------------------------------------

// PendingOperations::end(): the application has its completion, and its buffers.
inline take_completion(w, ok) {
  k = rank[w].round;
  EVENT("end rank=%d round=%d ok=%d\n", w, k, ok);
  if
  :: ok ->
     for (i : 0 .. PARTS - 1) {
       REQUIRE(wrong_result, ROUND_OF(RESULT(w, i)) == k)
     }
  :: else ->
#ifdef MAY_SPOIL
     REQUIRE(operation_fails, (failed_rounds & BIT(k)) || IS_ANY_LOST);
#else
     REQUIRE(operation_fails, failed_rounds & BIT(k));
#endif
     skip
  fi;
#ifdef FINISH
  compare_contributors(w, ok);
#endif
  if
  :: (excused_rounds & BIT(k)) || IS_LEFT_OUT(w)
  :: else ->
     REQUIRE(verdicts_differ, outcome[k] == 0 || (outcome[k] == SUCCEEDS) == (ok));
     outcome[k] = ((ok) -> SUCCEEDS : FAILS)
  fi;
  REACHES_GOAL(GOAL_REPEATED, (ok) && rank[w].was_interrupted && carrier != 0);
  REACHES_GOAL(GOAL_CLOSED, (ok) && rank[w].was_interrupted && carrier == 0);
  REACHES_GOAL(GOAL_SPOILED, !(ok) && rank[w].was_interrupted && failed_rounds == 0);
  REACHES_GOAL(GOAL_ALONE, (ok) && rank[w].alone && rank[w].round == ROUNDS);
#ifdef KEPT_WHEN_TAKEN
  if
  :: ok -> rank[w].kept = k
  :: else
  fi;
#endif
  for (i : 0 .. PARTS - 1) {
    RESULT(w, i) = 0
  }
  rank[w].number = 0;
  rank[w].verdict = false;
  rank[w].was_interrupted = false;
  rank[w].status = (k == ROUNDS -> FINISHED : COMPUTING);
  rank[w].round++
}

// The operation has ended for libtally. The application takes the completion of an eager one later.
inline end_operation(w, ok) {
  rank[w].version = 0;
  rank[w].parts_ended = 0;
  rank[w].part_failed = false;
  rank[w].cancelled = false;
#ifdef EAGER
  rank[w].verdict = (ok);
  rank[w].status = ENDED_HERE
#else
  take_completion(w, ok)
#endif
}

// OperationBook::finish().
#define FAILURE_AFTER(ok, before, round) ((ok) -> 0 : ((before) -> (before) : (round)))
inline finish_in_book(w, ok) {
  carrier = rank[w].version;
  if
  :: carrier == rank[w].old -> rank[w].old_failure = FAILURE_AFTER(ok, rank[w].old_failure, rank[w].number)
  :: else -> rank[w].failure = FAILURE_AFTER(ok, rank[w].failure, rank[w].number)
  fi;
#if defined(EAGER) && !defined(KEPT_WHEN_TAKEN) && !defined(EAGER_NOT_KEPT)
  if
  :: ok -> rank[w].kept = rank[w].number
  :: else
  fi;
#endif
  end_operation(w, ok)
}

// -- Posts ---------------------------------------------------------------------------------------

// PostPlacement::place_in_book(): sets `carrier` and `m_round`.
inline take_round(w) {
  if
  :: rank[w].old != 0 && rank[w].stage == MOVING && rank[w].old_next < rank[w].first ->
     carrier = rank[w].old;
     m_round = rank[w].old_next;
     rank[w].old_next++;
     if
     :: m_round + 1 == rank[w].first -> rank[w].behind = false
     :: else
     fi
  :: else ->
     carrier = rank[w].now;
     m_round = rank[w].next;
     rank[w].next++
  fi
}

inline place(w) {
  take_round(w);
  rank[w].version = carrier;
  rank[w].number = m_round;
  EVENT("place rank=%d round=%d version=%d\n", w, m_round, carrier);
#ifdef EAGER
  conclude_eager(carrier, m_round);
#endif
  skip
}

// PostPlacement::place_waiting(): a round that is done again comes first.
inline place_waiting(w) {
#ifdef EAGER
  if
  :: !HOLDS(w) && rank[w].again && rank[w].again_version == 0 ->
     take_round(w);
     REQUIRE(wrong_round, m_round == rank[w].kept);
     rank[w].again_version = carrier;
     EVENT("place rank=%d round=%d version=%d\n", w, m_round, carrier);
     conclude_eager(carrier, m_round)
  :: else
  fi;
#endif
  if
  :: !HOLDS(w) && !rank[w].again && rank[w].status == POSTED && rank[w].version == 0 ->
     own = rank[w].number;
     place(w);
     REQUIRE(wrong_round, rank[w].number == own);
#if NEEDED > 0
     end_without_needed(w);
#endif
     skip
  :: else
  fi
}

// PostPlacement::place(): the application has written its contribution, and hands its buffers over.
inline post(w) {
  rank[w].status = POSTED;
  EVENT("post rank=%d round=%d\n", w, rank[w].round);
  if
  :: rank[w].closed_next < rank[w].closed_end ->
     REQUIRE(wrong_round, rank[w].closed_next == rank[w].round);
     rank[w].closed_next++;
     if
     :: rank[w].closed_next == rank[w].closed_end -> rank[w].closed_next = 0; rank[w].closed_end = 0
     :: else
     fi;
     REACHES_GOAL(GOAL_LATER, true);
     end_operation(w, false)
  :: else ->
     if
     :: HOLDS(w) || rank[w].again ->
        rank[w].number = rank[w].next;
#ifndef AGAIN_MISCOUNTED
        if
        :: rank[w].old != 0 && rank[w].old_next < rank[w].first -> rank[w].number = rank[w].old_next
        :: else
        fi;
        rank[w].number = rank[w].number + (rank[w].again && rank[w].again_version == 0);
#endif
        skip
     :: else -> place(w)
     fi;
     REQUIRE(wrong_round, rank[w].number == rank[w].round);
#if NEEDED > 0
     end_without_needed(w);
#endif
     skip
  fi
}

// Session::pump(): one part has ended.
inline take_part(w, p) {
  carrier = rank[w].version;
  EVENT("take rank=%d part=%d version=%d round=%d\n", w, p, carrier, rank[w].number);
  rank[w].part_failed = rank[w].part_failed || HAS_FAILED(carrier, p, w);
#ifdef EAGER
  RESULT(w, p) = (SHARD(carrier, p).right -> RESULT_OF(rank[w].number, MEMBERS(carrier)) : WRONG);
#endif
  rank[w].parts_ended = rank[w].parts_ended | BIT(p);
  if
  :: rank[w].parts_ended == ALL_PARTS -> good = !rank[w].part_failed; finish_in_book(w, good)
  :: else
  fi
}
#define MAY_TAKE(w, p) \
  (rank[w].version != 0 && POSTED_TO(w, rank[w].version, p) && \
   (HAS_FAILED(rank[w].version, p, w) || HAS_SUCCEEDED(rank[w].version, p, w)))

#ifdef EAGER
// The round that was done again has ended. Its result goes nowhere.
inline take_again(w) {
  carrier = rank[w].again_version;
  good = SHARD(carrier, 0).done == rank[w].kept;
  if
  :: carrier == rank[w].old -> rank[w].old_failure = FAILURE_AFTER(good, rank[w].old_failure, rank[w].kept)
  :: else -> rank[w].failure = FAILURE_AFTER(good, rank[w].failure, rank[w].kept)
  fi;
  rank[w].again = false;
  rank[w].again_version = 0;
  EVENT("done_again rank=%d round=%d\n", w, rank[w].kept);
  place_waiting(w)
}
#define MAY_TAKE_AGAIN(w) \
  (rank[w].again && rank[w].again_version != 0 && (SHARD(rank[w].again_version, 0).open & BIT(w)) && \
   (SHARD(rank[w].again_version, 0).done == rank[w].kept || \
    (SHARD(rank[w].again_version, 0).failed & BIT(rank[w].kept))))
#endif

// Session::cancel(): the application cancels. Its nodes may have concluded before. An interrupted operation that has been
// cancelled is cancelled again when it is placed, so its nodes may fail it there.
inline cancel(w) {
  cancels_left--;
  EVENT("cancel rank=%d round=%d\n", w, rank[w].round);
  rank[w].cancelled = true;
  excuse(rank[w].round)
}

// -- The end of the session ----------------------------------------------------------------------

inline forget_rank(w) {
  rank[w].round = 0; rank[w].now = 0; rank[w].old = 0; rank[w].coming = 0;
  rank[w].next = 0; rank[w].failure = 0; rank[w].old_next = 0; rank[w].old_failure = 0;
  rank[w].version = 0; rank[w].number = 0; rank[w].parts_ended = 0;
  rank[w].part_failed = false; rank[w].cancelled = false; rank[w].was_interrupted = false; rank[w].verdict = false;
  rank[w].stage = 0; rank[w].epoch = 0; rank[w].first = 0; rank[w].decided_failure = 0;
  rank[w].behind = false; rank[w].interrupted = false; rank[w].refused = false; rank[w].said_moved = false;
  rank[w].alone = false; rank[w].kept = 0; rank[w].again = false; rank[w].again_version = 0;
  rank[w].closed_next = 0; rank[w].closed_end = 0;
#ifdef RESUMES
  rank[w].looks = false; rank[w].known = 0;
#endif
  do
  :: len(to_rank[w]) > 0 -> to_rank[w] ? m_word, m_epoch, m_round, m_failure
  :: else -> break
  od
}

// Session::lose(): all operations end with an error, after the fence.
inline end_session(w) {
  EVENT("end_session rank=%d\n", w);
  for (h : 1 .. VERSIONS) {
    close_version(w, h)
  }
  for (i : 0 .. PARTS - 1) {
    RESULT(w, i) = 0
  }
  if
  :: stage_of_job != GONE -> send(w, CLOSED, 0)
  :: else
  fi;
  forget_rank(w);
  rank[w].status = SESSION_OVER;
  REACHES_GOAL(GOAL_OVER, rank[0].status >= SESSION_OVER && rank[1].status >= SESSION_OVER)
}
inline crash(w) {
  crashes_left--;
  AFTER_FAULT;
  EVENT("crash rank=%d\n", w);
  end_session(w);
  rank[w].status = CRASHED
}

// -- Changes -------------------------------------------------------------------------------------

// PlanChange::drop_next(), and PlanSwitch.
inline forget_change(w, next_stage) {
  rank[w].stage = next_stage;
  rank[w].epoch = 0;
  rank[w].first = 0;
  rank[w].decided_failure = 0;
  rank[w].refused = false
}

// Session::prepare(): opens the version, and reports the rounds. With `repair` it reports those that have ended.
inline prepare(w, e, repair) {
  rank[w].coming = e;
  rank[w].epoch = e;
  rank[w].refused = false;
  rank[w].said_moved = false;
  if
  :: rank[w].stage == STEADY -> rank[w].stage = HOLDING
  :: else
  fi;
  for (i : 0 .. PARTS - 1) {
    SHARD(e, i).open = SHARD(e, i).open | BIT(w)
  }
  m_round = rank[w].next;
  m_failure = rank[w].failure;
#if defined(MAY_SPOIL) && !defined(NOT_SPOILED)
  // SessionRepair::rounds(): an operation whose contribution may be gone counts as failed.
  if
  :: (repair) && rank[w].was_interrupted ->
     m_round = rank[w].number + 1;
     m_failure = FAILURE_AFTER(false, m_failure, rank[w].number)
  :: else
  fi;
#endif
  m_kept = rank[w].kept != 0 && m_failure == 0 && rank[w].kept + 1 == m_round;
#ifdef FAILURES_UNSAID
  m_failure = 0;
#endif
  EVENT("ready rank=%d epoch=%d next=%d failure=%d kept=%d\n", w, e, m_round, m_failure, m_kept);
  m_failure = ((repair) -> m_failure : 0);
  m_kept = ((repair) -> m_kept : 0);
  report(w, READY, e, m_round, m_failure, m_kept)
}

// PlanVersions::go_over(): the coming version carries new rounds, and the old one those before the first.
inline go_over(w) {
  rank[w].stage = MOVING;
  rank[w].behind = rank[w].next < rank[w].first;
  rank[w].old = rank[w].now;
  rank[w].old_next = rank[w].next;
  rank[w].old_failure = rank[w].failure;
  rank[w].now = rank[w].coming;
  rank[w].coming = 0;
#ifndef INHERITS_AT_GO
  rank[w].failure = 0;
#endif
  if
  :: rank[w].behind -> rank[w].next = rank[w].first; rank[w].failure = 0
  :: else
  fi;
  EVENT("go rank=%d version=%d\n", w, rank[w].now);
  place_waiting(w)
}

// No operation has ended in the book of the new version. One may be outstanding there.
#define HAS_ENDED_NONE(w) \
  (rank[w].next - (rank[w].version == rank[w].now) - (rank[w].again && rank[w].again_version == rank[w].now) == \
   rank[w].old_next)
// OperationBook::inherit(): how rounds have ended in the old version counts when none has succeeded in the new one.
inline inherit(w) {
  if
  :: HAS_ENDED_NONE(w) -> rank[w].failure = rank[w].old_failure
#ifndef OLD_FAILURE_HIDDEN
  :: !HAS_ENDED_NONE(w) && rank[w].failure == rank[w].old_next && rank[w].old_failure != 0 ->
     rank[w].failure = rank[w].old_failure
#endif
  :: else
  fi
}
// Session::leave_old(). How the last round ended in the old version stays known.
inline leave_old(w) {
#ifndef OLD_END_FORGOTTEN
  inherit(w);
#endif
  close_version(w, rank[w].old);
  EVENT("leave_old rank=%d version=%d\n", w, rank[w].old);
  rank[w].old = 0;
  rank[w].old_next = 0;
  rank[w].old_failure = 0
}
inline say_moved(w) {
  if
  :: !rank[w].said_moved && !rank[w].alone -> rank[w].said_moved = true; send(w, MOVED, rank[w].now)
  :: else
  fi
}
inline leave_lost_old(w) {
  say_moved(w);
  leave_old(w)
}

// Session::call_off(): the coming version cannot be used.
inline call_off(w) {
  EVENT("cannot rank=%d epoch=%d\n", w, rank[w].epoch);
  close_version(w, rank[w].coming);
  rank[w].coming = 0;
  rank[w].refused = true;
  send(w, CANNOT, rank[w].epoch)
}

// -- Repairs -------------------------------------------------------------------------------------

// SessionRepair::interrupt(): all nodes are fenced off, outstanding operations wait, and the loss is reported.
inline interrupt(w) {
  EVENT("interrupt rank=%d version=%d\n", w, rank[w].now);
  REQUIRE(needless_interrupt, IS_ANY_LOST);
  REACHES_GOAL(GOAL_MOVING, rank[w].old != 0 && rank[w].version == rank[w].old);
  flag = rank[w].old != 0 && rank[w].version == rank[w].old;  // the tag has an operation there
  fence_version(w, rank[w].now);
  fence_version(w, rank[w].old);
  fence_version(w, rank[w].coming);
  if
  :: rank[w].status == POSTED && rank[w].version != 0 && rank[w].part_failed -> finish_in_book(w, false)
  :: rank[w].status == POSTED && rank[w].version != 0 && !rank[w].part_failed ->  // also when it is cancelled
     if
     :: flag -> rank[w].old_next = rank[w].number
     :: else -> rank[w].next = rank[w].number
     fi;
     rank[w].version = 0;
#ifndef PARTS_KEPT
     rank[w].parts_ended = 0;
#endif
     rank[w].was_interrupted = true
  :: else
  fi;
  if
  :: rank[w].again && rank[w].again_version != 0 ->
     if
     :: rank[w].again_version == rank[w].old -> rank[w].old_next = rank[w].kept
     :: else -> rank[w].next = rank[w].kept
     fi;
     rank[w].again_version = 0
  :: else
  fi;
  // PlanVersions::keep_rounds().
  if
  :: rank[w].old != 0 ->
     inherit(w);
#ifdef UNUSED_TAG_ENDED
     flag = flag || rank[w].old_next > 1;
#else
     flag = true;
#endif
     if
     :: flag && rank[w].old_next < rank[w].first ->
        rank[w].next = rank[w].old_next;
        rank[w].failure = rank[w].old_failure
     :: else
     fi
  :: else
  fi;
  rank[w].old = 0;
  rank[w].old_next = 0;
  rank[w].old_failure = 0;
  rank[w].behind = false;
  rank[w].said_moved = false;
  rank[w].coming = 0;
  rank[w].interrupted = true;
#ifdef RESUMES
  if
  :: rank[w].stage == KNOWING -> rank[w].known = rank[w].epoch
  :: else
  fi;
#endif
  forget_change(w, HOLDING);
  send(w, LOST, rank[w].now)
}

// Something of a version that the rank uses is lost. A rank without a coordinator cannot be repaired.
inline lose(w) {
  if
  :: rank[w].alone ->
     REQUIRE(session_ends, IS_ANY_LOST);
     end_session(w)
  :: else -> interrupt(w)
  fi
}
#define IS_BROKEN(v) (HAS_LOST_NODE(v) || RANK_IS_GONE(v))
#define SEES_LOSS(w) \
  (!rank[w].interrupted && rank[w].status < SESSION_OVER && \
   (IS_BROKEN(rank[w].now) || (rank[w].old != 0 && NEEDS_OLD(w) && IS_BROKEN(rank[w].old)) || stage_of_job == OVER))
#define MAY_BREAK(w) \
  (!rank[w].interrupted && rank[w].status < SESSION_OVER && !rank[w].alone && breaks_left > 0 && FAULT_COMES)
inline break_session(w) {
  breaks_left--;
  AFTER_FAULT;
  EVENT("break rank=%d\n", w);
  interrupt(w)
}
// A node of the coming version is lost. A rank that knows the decision waits: the others may go over already.
#ifdef CALLS_OFF_KNOWING
#define MAY_CALL_OFF(w) (rank[w].stage == HOLDING || (rank[w].stage == KNOWING && !rank[w].interrupted))
#elif defined(CALLS_OFF_REPAIR)
#define MAY_CALL_OFF(w) (rank[w].stage == HOLDING || (rank[w].stage == KNOWING && rank[w].interrupted))
#else
#define MAY_CALL_OFF(w) (rank[w].stage == HOLDING)
#endif
#define SEES_NO_COMING(w) (rank[w].coming != 0 && MAY_CALL_OFF(w) && HAS_LOST_NODE(rank[w].coming))
#define MAY_REFUSE(w) \
  (rank[w].coming != 0 && rank[w].stage == HOLDING && !rank[w].alone && breaks_left > 0 && FAULT_COMES)
inline refuse(w) {
  breaks_left--;
  AFTER_FAULT;
  EVENT("break rank=%d\n", w);
  call_off(w)
}

// PostPlacement::close_rounds() and close_later(): what the decision says of rounds that have ended elsewhere.
// `own`: the next round here.
inline close_rounds(w) {
  j = own;
  if
  :: rank[w].again && rank[w].again_version == 0 && rank[w].kept < rank[w].next ->
     rank[w].again = false;
     j = rank[w].kept + 1
  :: else
  fi;
  if
  :: rank[w].status == POSTED && rank[w].version == 0 && rank[w].number < rank[w].next ->
     j = rank[w].number + 1;
     good = rank[w].failure == 0 || rank[w].number < rank[w].failure;
#if defined(EAGER) && !defined(EAGER_STANDS)
     // PendingOperations::stands_with_others(). A round that failed after this one hides that it was kept.
     if
     :: good && rank[w].failure != 0 -> excuse(rank[w].number)
     :: else
     fi;
     good = false;
#endif
     carrier = 0;
     end_operation(w, good)
  :: else
  fi;
  if
  :: rank[w].closed_next < rank[w].closed_end -> j = rank[w].closed_next
  :: else
  fi;
  if
  :: j < rank[w].next -> rank[w].closed_next = j; rank[w].closed_end = rank[w].next
  :: else
  fi
}

// SessionRepair::go_over(): the coming version takes the place of the lost one.
inline go_over_repaired(w) {
  k = rank[w].next;
#ifdef EAGER
  flag = rank[w].kept != 0 && rank[w].failure == 0 && rank[w].kept + 1 == k && k > rank[w].first;
#endif
  rank[w].now = rank[w].coming;
  rank[w].coming = 0;
  rank[w].interrupted = false;
#ifdef NO_CLOSING
  forget_change(w, STEADY);
#else
  rank[w].next = rank[w].first;
  rank[w].failure = rank[w].decided_failure;
  forget_change(w, STEADY);
  own = k;
  close_rounds(w);
#endif
#ifdef EAGER
  if
  :: flag ->
     rank[w].again = true;
     EVENT("again rank=%d round=%d\n", w, rank[w].kept);
     REACHES_GOAL(GOAL_AGAIN, true)
  :: else
  fi;
#endif
#if defined(PRESERVE) && !defined(NOT_RESTORED)
  for (i : 0 .. PARTS - 1) {
    if
    :: rank[w].status == POSTED && rank[w].was_interrupted -> RESULT(w, i) = 0  // PendingOperations::restore()
    :: else
    fi
  }
#endif
  EVENT("repaired rank=%d version=%d first=%d failure=%d\n", w, rank[w].now, rank[w].next, rank[w].failure);
  place_waiting(w)
}

// -- News of the coordinator ---------------------------------------------------------------------

inline take_prepare(w) {
  if
  :: m_word == REPAIR && !rank[w].interrupted -> own = m_epoch; interrupt(w); m_epoch = own; m_word = REPAIR
  :: else
  fi;
  if
  :: m_word == PREPARE && rank[w].interrupted  // announced before the coordinator knew of the loss
  :: else ->
     if
     :: rank[w].coming != 0 || rank[w].old != 0 -> send(w, CANNOT, m_epoch)
     :: else -> prepare(w, m_epoch, m_word == REPAIR)
     fi
  fi
}

inline take_decision(w) {
  if
  :: HOLDS(w) && !rank[w].refused ->
     rank[w].stage = KNOWING;
     rank[w].first = m_round;
     rank[w].decided_failure = m_failure;
     send(w, KNOWS, m_epoch)
  :: else
  fi
}

#ifdef STALE_GO
#define OBEYS_GO(w) (HOLDS(w) && rank[w].coming != 0)
#else
#define OBEYS_GO(w) (rank[w].stage == KNOWING && rank[w].epoch == m_epoch)
#endif
inline take_go(w) {
  if
  :: OBEYS_GO(w) ->
#ifdef RESUMES
     rank[w].known = 0;
#endif
     if
     :: rank[w].refused -> REQUIRE(session_ends, false); end_session(w)
     :: !rank[w].refused && rank[w].interrupted -> go_over_repaired(w)
     :: else -> go_over(w)
     fi
  :: else
  fi
}

inline take_leave(w) {
  if
  :: rank[w].said_moved ->
     if
     :: rank[w].old != 0 -> leave_old(w)
     :: else
     fi;
     rank[w].said_moved = false;
     forget_change(w, STEADY);
     send(w, LEFT, m_epoch)
  :: else
  fi
}

inline take_called_off(w) {
  close_version(w, rank[w].coming);
  rank[w].coming = 0;
  if
  :: rank[w].interrupted -> forget_change(w, HOLDING)
  :: else -> forget_change(w, STEADY); place_waiting(w)
  fi
}

// PlanChange::step_of().
inline take_news(w) {
  to_rank[w] ? m_word, m_epoch, m_round, m_failure;
  EVENT("news rank=%d word=%e epoch=%d first=%d failure=%d\n", w, m_word, m_epoch, m_round, m_failure);
  if
  :: m_word == PREPARE || m_word == REPAIR -> take_prepare(w)
  :: m_word == ENDED ->
     if
     :: rank[w].interrupted ->
#ifdef FINISH
        REQUIRE(session_ends, IS_QUORUM_LOST);
        REACHES_GOAL(GOAL_QUORUM, UNFINISHED(w));
#else
        REQUIRE(session_ends, ANY_OVER || stage_of_job == GONE);
#endif
        end_session(w)
     :: else  // it finds out by itself
     fi
  :: m_word == GO -> take_go(w)
  :: m_word == DECIDED && m_epoch == rank[w].epoch -> take_decision(w)
  :: m_word == LEAVE && m_epoch == rank[w].now -> take_leave(w)
  :: m_word == CALLED_OFF && m_epoch == rank[w].epoch -> take_called_off(w)
  :: else  // sent before a report of this rank arrived
  fi
}

// PlanChange::lose_coordinator(): what was on its way is lost.
inline forget_news(w) {
  do
  :: len(to_rank[w]) > 0 -> to_rank[w] ? m_word, m_epoch, m_round, m_failure
  :: else -> break
  od
}

// PlanChange::go_on_alone().
inline go_on_alone(w) {
  if
  :: rank[w].interrupted || rank[w].stage == KNOWING -> end_session(w)
  :: else ->
     rank[w].alone = true;
     close_version(w, rank[w].coming);
     rank[w].coming = 0;
     if
     :: rank[w].stage == HOLDING -> forget_change(w, STEADY); place_waiting(w)
     :: else
     fi
  fi
}
inline lose_coordinator(w) {
  EVENT("alone rank=%d\n", w);
#ifdef RESUMES
  rank[w].looks = false;
#endif
  forget_news(w);
  go_on_alone(w)
}

#ifdef RESUMES
// PlanChange::drop_next().
inline drop_next(w) {
  close_version(w, rank[w].coming);
  rank[w].coming = 0;
  if
  :: rank[w].interrupted -> forget_change(w, HOLDING)
  :: !rank[w].interrupted && HOLDS(w) -> forget_change(w, STEADY); place_waiting(w)
  :: else
  fi
}

// PlanChange::look_for_next(). A rank that knows a decision waits for what the next coordinator says.
inline look_for_next(w) {
  EVENT("look rank=%d\n", w);
  forget_news(w);
  rank[w].looks = true;
  if
  :: rank[w].stage == KNOWING
  :: else -> drop_next(w)
  fi
}

// PlanChange::resume(). The rank names the versions that it may have: the one in use, the next one when it knows the
// decision, and the one that it knew when it was interrupted.
#ifdef NEXT_UNNAMED
#define NAMES_NEXT(w) false
#else
#define NAMES_NEXT(w) (rank[w].stage == KNOWING && rank[w].epoch == current)
#endif
#ifdef KNOWN_UNNAMED
#define NAMES_KNOWN(w) false
#else
#define NAMES_KNOWN(w) (rank[w].known == current)
#endif
#define MAY_RESUME(w) (stage_of_job != OVER && (rank[w].now == current || NAMES_NEXT(w) || NAMES_KNOWN(w)))
inline resume(w) {
  rank[w].looks = false;
  if
  :: !MAY_RESUME(w) ->
     EVENT("alone rank=%d\n", w);
     REQUIRE(session_ends, ANY_OVER || (!rank[w].interrupted && rank[w].stage != KNOWING));
     go_on_alone(w)
  :: else ->
     EVENT("resume rank=%d version=%d\n", w, current);
     awaited = awaited & ~BIT(w);
#ifndef LEAVE_UNSAID
     if
     :: change == LEAVING && !(reported & BIT(w)) -> to_rank[w] ! LEAVE, target, 0, 0  // Change::resume()
     :: else
     fi;
#endif
     if
     :: rank[w].now != current && rank[w].stage == KNOWING && rank[w].epoch == current ->
        REACHES_GOAL(GOAL_FOLLOWS, !rank[w].interrupted);
        REACHES_GOAL(GOAL_MENDED, rank[w].interrupted);
        rank[w].known = 0;
        if
        :: rank[w].interrupted -> go_over_repaired(w); say_moved(w)
        :: else -> go_over(w)
        fi
     :: rank[w].interrupted && !(rank[w].now != current && rank[w].stage == KNOWING && rank[w].epoch == current) ->
        REACHES_GOAL(GOAL_KNEW, rank[w].now != current);
#ifndef LOSS_UNSAID
        send(w, LOST, current);
#endif
        drop_next(w)
     :: !rank[w].interrupted && rank[w].now == current && HOLDS(w) -> REACHES_GOAL(GOAL_OFF, true); drop_next(w)
     :: else ->
        REQUIRE(session_ends, rank[w].now == current);
        if
        :: rank[w].stage == STEADY || rank[w].said_moved ->
#ifdef MOVED_UNSAID
           skip
#else
           rank[w].said_moved = false;
           say_moved(w)
#endif
        :: else
        fi
     fi
  fi
}
#endif

proctype Rank(byte w) {
end:
  do
  :: STEP(rank[w].status == COMPUTING, post(w))
  :: STEP(MAY_TAKE(w, 0), take_part(w, 0))
#if PARTS > 1
  :: STEP(MAY_TAKE(w, 1), take_part(w, 1))
#endif
#ifdef EAGER
  :: STEP(rank[w].status == ENDED_HERE, take_completion(w, rank[w].verdict))
  :: STEP(MAY_TAKE_AGAIN(w), take_again(w))
#endif
#if CANCELS > 0
  :: STEP(cancels_left > 0 && rank[w].status == POSTED && rank[w].version != 0 && !rank[w].cancelled, cancel(w))
#endif
  :: STEP(nempty(to_rank[w]) && !rank[w].alone && rank[w].status < SESSION_OVER, take_news(w))
  :: STEP(SEES_LOSS(w), lose(w))
  :: STEP(SEES_NO_COMING(w), call_off(w))
#if CHANGES > 0
  :: STEP(rank[w].old != 0 && !NEEDS_OLD(w) && !rank[w].said_moved && !rank[w].alone, say_moved(w))
  :: STEP(rank[w].old != 0 && !NEEDS_OLD(w) && IS_BROKEN(rank[w].old), leave_lost_old(w))
#endif
#if BREAKS > 0
  :: STEP(MAY_BREAK(w), break_session(w))
  :: STEP(MAY_REFUSE(w), refuse(w))
#endif
#if CRASHES > 0
  :: STEP(crashes_left > 0 && rank[w].status < SESSION_OVER && FAULT_COMES && MAY_BE_LOST(w), crash(w))
#endif
#if CUTS > 0
  :: STEP(IS_LEFT_OUT(w) && rank[w].status < SESSION_OVER, learn_left_out(w))
#endif
#if COORDINATOR_LOSSES > 0
  :: STEP(stage_of_job == GONE && !rank[w].alone && rank[w].status < SESSION_OVER, lose_coordinator(w))
#endif
#ifdef RESUMES
  :: STEP(IS_AWAY(w) && !rank[w].looks && !rank[w].alone && rank[w].status < SESSION_OVER && stage_of_job != GONE,
          look_for_next(w))
  :: STEP(rank[w].looks && stage_of_job != GONE, resume(w))
#endif
  od
}
