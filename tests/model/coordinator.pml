// The coordinator. It stands for control/coordinator/state/change.h and repair_rounds.h (one change and its decision),
// and control/coordinator/state/jobs/job_versions.h (when a version is lost, and what follows). Nodes take their
// assignments at once, so a version is there when its change begins.

inline tell(w, word, which, how) {
  if
  :: (closed & BIT(w)) || IS_AWAY(w) || IS_LEFT_OUT(w)
  :: else -> to_rank[w] ! word, target, which, how
  fi
}
inline tell_all(word, which, how) {
  for (j : 0 .. RANKS - 1) {
    tell(j, word, which, how)
  }
}

inline forget_reports() {
  first_round = 1;
  furthest = 0;
  furthest_kept = 0;
  has_succeeded = false;
  succeeded = 0
}

inline enter(next_stage) {
  change = next_stage;
  reported = 0
}

inline end_change() {
  enter(NO_CHANGE);
  target = 0;
  forget_reports()
}

// JobVersions::fail_next().
inline call_change_off() {
  EVENT("call_off epoch=%d\n", target);
  tell_all(CALLED_OFF, 0, 0);
  end_change()
}

// The next version: where the present one has lost nodes, others take their parts; a planned change moves all parts.
// When no node is left, one returns.
#define IS_USABLE(n, v, p) (!(lost & BIT(n)) && !(PARTS > 1 && HAS_NODE(v, n)))
inline lay_out(v, moves) {
  for (i : 0 .. PARTS - 1) {
    k = owner[AT(current, i)];
    if
    :: moves -> k = (k + 1) % NODES
    :: else
    fi;
    if
    :: lost & BIT(k) ->
       if
       :: IS_USABLE(0, current, i) -> k = 0
       :: !IS_USABLE(0, current, i) && IS_USABLE(1, current, i) -> k = 1
#if NODES > 2
       :: !IS_USABLE(0, current, i) && !IS_USABLE(1, current, i) && IS_USABLE(2, current, i) -> k = 2
#endif
       :: else -> lost = lost & ~BIT(k)
       fi
    :: else
    fi;
    owner[AT(v, i)] = k
  }
}

inline begin_change(word, moves) {
  last_epoch++;
  target = last_epoch;
  lay_out(target, moves);
#ifdef FINISH
  members[target] = ALL & ~left_out;
#endif
  enter(ASKING);
  EVENT("begin epoch=%d\n", target);
  tell_all(word, 0, 0)
}

// JobVersions::begin_repair(). A rank has left the job: it cannot be repaired, and ends. A job that finishes without
// lost ranks has left that one out already.
#ifdef FINISH
#define HAS_CLOSED false
#else
#define HAS_CLOSED (closed != 0)
#endif
inline begin_repair() {
  if
  :: change == ASKING || change == DECIDING -> call_change_off()
  :: else -> end_change()
  fi;
  leaving = 0;
  said_lost = 0;
  if
  :: HAS_CLOSED -> stage_of_job = OVER
  :: else -> stage_of_job = REPAIRING; EVENT("repair epoch=%d\n", current)
  fi
}

#define IS_USED(v) ((v) == current || ((v) == leaving && change == MOVING))
inline lose_node(n) {
  losses_left--;
  AFTER_FAULT;
  EVENT("lose node=%d\n", n);
  flag = (stage_of_job == RUNNING &&
          (HAS_NODE(current, n) || (leaving != 0 && change == MOVING && HAS_NODE(leaving, n))));
  lost = lost | BIT(n);
  if
  :: flag -> begin_repair()
  :: !flag && target != 0 && (change == ASKING || change == DECIDING) && HAS_NODE(target, n) -> call_change_off()
  :: else
  fi
}
#define MAY_LOSE(n) \
  (losses_left > 0 && FAULT_COMES && stage_of_job < OVER && !(lost & BIT(n)) && \
   (HAS_NODE(current, n) || (target != 0 && HAS_NODE(target, n)) || (leaving != 0 && HAS_NODE(leaving, n))))

// JobVersions::lose() and lose_again().
inline take_loss(w) {
  if
  :: target != 0 && m_epoch == target && (change == ASKING || change == DECIDING) -> call_change_off()
  :: !IS_USED(m_epoch)
  :: IS_USED(m_epoch) && stage_of_job == REPAIRING ->
     flag = !(said_lost & BIT(w)) && !((change == ASKING && (reported & BIT(w))) || change == DECIDING);
     said_lost = said_lost | BIT(w);
     if
     :: target == 0 || flag
     :: else -> call_change_off()
     fi
  :: IS_USED(m_epoch) && stage_of_job == RUNNING && HAS_CLOSED -> to_rank[w] ! ENDED, 0, 0, 0
  :: IS_USED(m_epoch) && stage_of_job == RUNNING && !HAS_CLOSED ->
     begin_repair();
     said_lost = BIT(w)
  fi
}

// RepairRounds::add(), or the largest round in a planned change.
inline add_rounds(w) {
  i = m_round;
  if
  :: m_failure != 0 && m_failure < m_round -> i = m_failure
  :: m_failure != 0 && m_failure >= m_round -> i = m_round - 1
  :: else
  fi;
  if
  :: i > succeeded -> succeeded = i
  :: else
  fi;
#ifdef FIRST_IS_MINIMUM
  if
  :: reported == BIT(w) || m_round < first_round -> first_round = m_round
  :: else
  fi;
  has_succeeded = true
#else
  if
  :: m_round > first_round -> first_round = m_round; furthest = 0; furthest_kept = 0; has_succeeded = false
  :: else
  fi;
  if
  :: m_round == first_round ->
     furthest++;
     furthest_kept = furthest_kept + (m_failure == 0 && m_kept);
     has_succeeded = has_succeeded || m_failure == 0
  :: else
  fi
#endif
}

// All ranks know the decision: JobVersions::use_next(), and the end of a repair.
inline move() {
  EVENT("go epoch=%d\n", target);
  if
  :: stage_of_job == REPAIRING ->
     REACHES_GOAL(GOAL_SECOND, target > current + 1);
#ifdef FINISH
     note_first_without();
#endif
#ifdef RESUMES
     REACHES_GOAL(GOAL_TAKEN_OVER, loss_reported);
#endif
     current = target;
     stage_of_job = RUNNING;
     said_lost = 0;
     end_change()
  :: else ->
     leaving = current;
     current = target;
     enter(MOVING)
  fi
}

// RepairRounds::decide(). In a planned change no round has failed or is done again.
inline decide() {
#ifdef FINISH
  count_more();
#endif
  k = (has_succeeded -> 0 : succeeded);
  if
  :: has_succeeded && furthest < MEMBER_COUNT(target) && furthest_kept == furthest -> first_round--
  :: else
  fi;
  EVENT("decide epoch=%d first=%d failure=%d\n", target, first_round, k);
  tell_all(DECIDED, first_round, k);
  enter(DECIDING);
#ifdef RUNS_NOTED_EARLY
  stored = target;
#endif
#ifdef GO_EARLY
  tell_all(GO, 0, 0);
  move();
#endif
#ifdef FINISH
  decided_first = first_round;
#endif
  forget_reports()
}

#ifdef DECIDES_EARLY
#define HAVE_ALL_REPORTED \
  (reported == MEMBERS(target) || \
   (change == ASKING && left_out != 0 && COUNT(reported) + 1 == MEMBER_COUNT(target)))
#else
#define HAVE_ALL_REPORTED (reported == MEMBERS(target))
#endif
// Change::report().
inline take_report(w) {
  reported = reported | BIT(w);
  if
  :: change == ASKING -> add_rounds(w)
  :: else
  fi;
  if
  :: HAVE_ALL_REPORTED ->
     if
     :: change == ASKING -> decide()
     :: change == DECIDING -> tell_all(GO, 0, 0); move()
     :: change == MOVING -> tell_all(LEAVE, 0, 0); enter(LEAVING)
     :: else ->
#ifdef RESUMES
        REACHES_GOAL(GOAL_LEAVES, taken_over);
#endif
        end_change();
        leaving = 0
     fi
  :: else
  fi
}
#define IS_AWAITED(w) \
  (m_epoch == target && !(reported & BIT(w)) && \
   ((change == ASKING && m_word == READY) || (change == DECIDING && m_word == KNOWS) || \
    (change == MOVING && m_word == MOVED) || (change == LEAVING && m_word == LEFT)))

#ifdef FINISH
// The coordinator has lost a rank: the version that has it is lost. An attempt of a repair that has it is called off.
inline leave_out(w) {
  left_out = left_out | BIT(w);
  forget_ends(w);
  if
  :: IS_QUORUM_LOST && stage_of_job < OVER ->
     if
     :: change == ASKING || change == DECIDING -> call_change_off()
     :: else -> end_change()
     fi;
     leaving = 0;
     stage_of_job = OVER;
     tell_all(ENDED, 0, 0)
  :: !IS_QUORUM_LOST && stage_of_job == RUNNING -> begin_repair()
  :: !IS_QUORUM_LOST && stage_of_job == REPAIRING && (change == ASKING || change == DECIDING) ->
     REACHES_GOAL(GOAL_BOTH, MEMBERS(target) != ALL);
     call_change_off()
  :: else
  fi
}
inline cut(w) {
  cuts_left--;
  AFTER_FAULT;
  EVENT("cut rank=%d\n", w);
  leave_out(w)
}
// The rank has stopped, with its machine: no node has noticed, and its sessions there stay open.
inline vanish(w) {
  EVENT("vanish rank=%d\n", w);
  cut(w);
  for (i : 0 .. PARTS - 1) {
    RESULT(w, i) = 0
  }
  forget_rank(w);
  rank[w].status = CRASHED
}
#define MAY_CUT(w) \
  (cuts_left > 0 && FAULT_COMES && stage_of_job < OVER && MAY_BE_LOST(w) && rank[w].status < SESSION_OVER)
#endif

// JobVersions::close(). A job that is being repaired ends with the rank.
inline take_close(w) {
  closed = closed | BIT(w);
#ifdef FINISH
  leave_out(w);
#else
  if
  :: change == ASKING || change == DECIDING -> call_change_off()
  :: else
  fi;
  if
  :: stage_of_job == REPAIRING ->
     stage_of_job = OVER;
     tell_all(ENDED, 0, 0)
  :: else
  fi;
#endif
  do
  :: len(to_rank[w]) > 0 -> to_rank[w] ? m_word, m_epoch, m_round, m_failure
  :: else -> break
  od
}

inline take_message(w) {
  if
  :: m_word == CLOSED -> take_close(w)
  :: m_word == LOST && stage_of_job == OVER -> to_rank[w] ! ENDED, 0, 0, 0
  :: m_word == LOST && stage_of_job != OVER -> take_loss(w)
  :: m_word == CANNOT && m_epoch == target && (change == ASKING || change == DECIDING) -> call_change_off()
  :: m_word != LOST && IS_AWAITED(w) -> take_report(w)
#ifdef RESUMES
  // The rank has come from another coordinator, and may still have the version before: JobVersions::report().
  :: m_word == MOVED && m_epoch == current && m_epoch != target && stage_of_job < OVER -> to_rank[w] ! LEAVE, m_epoch, 0, 0
#endif
#ifdef LATE_GO
  :: m_word == KNOWS && m_epoch != target && stage_of_job < OVER ->
     for (j : 0 .. RANKS - 1) {
       if
       :: closed & BIT(j)
       :: else -> to_rank[j] ! GO, m_epoch, 0, 0
       fi
     }
#endif
  :: else  // on another change, or late
  fi
}

inline hear(w) {
  to_coordinator[w] ? m_word, m_epoch, m_round, m_failure, m_kept;
  EVENT("hear rank=%d word=%e epoch=%d\n", w, m_word, m_epoch);
#ifdef FINISH
  if
  :: IS_LEFT_OUT(w) -> count_late(w)
  :: else -> take_message(w)
  fi
#else
  take_message(w)
#endif
}

#ifdef RESUMES
// The next coordinator takes the job over: JobTable::take_over(). It has the versions whose record in the store says
// that ranks may use them, and nothing of what ranks have reported. The store has the mark before any rank hears `go`.
// No rank has a place here until it comes. (That there is no coordinator for a while adds nothing: a rank may notice the
// loss late, and come later.)
inline take_over() {
  takeovers_left--;
  AFTER_FAULT;
  do
  :: len(to_coordinator[0]) > 0 -> to_coordinator[0] ? m_word, m_epoch, m_round, m_failure, m_kept
  :: else -> break
  od;
  do
  :: len(to_coordinator[1]) > 0 -> to_coordinator[1] ? m_word, m_epoch, m_round, m_failure, m_kept
  :: else -> break
  od;
#if RANKS > 2
  do
  :: len(to_coordinator[2]) > 0 -> to_coordinator[2] ? m_word, m_epoch, m_round, m_failure, m_kept
  :: else -> break
  od;
#endif
#ifdef GOAL
  loss_reported = said_lost != 0;
  taken_over = change == MOVING || change == LEAVING;
#endif
  stage_of_job = RUNNING;
  said_lost = 0;
  closed = 0;
  awaited = ALL;
  forget_reports();
#if defined(RUNS_UNNOTED) || defined(RUNS_NOTED_EARLY)
  current = stored;
#endif
#ifdef MOVING_FORGOTTEN
  end_change();
  leaving = 0;
#else
  if
  :: change == MOVING || change == LEAVING -> target = current; enter(MOVING)
  :: else -> end_change(); leaving = 0
  fi;
#endif
  EVENT("take_over version=%d\n", current)
}

// The coordinator stops when all ranks know the decision of a repair, and the store has the new version already and the
// lost one still. The next coordinator cannot tell this from a planned change.
#define KNOWS_TARGET(w) (rank[w].stage == KNOWING && rank[w].epoch == target)
#if RANKS == 2
#define ALL_KNOW_TARGET (KNOWS_TARGET(0) && KNOWS_TARGET(1))
#define ALL_STAY_AWAY (STAYS_AWAY(0) && STAYS_AWAY(1))
#else
#define ALL_KNOW_TARGET (KNOWS_TARGET(0) && KNOWS_TARGET(1) && KNOWS_TARGET(2))
#define ALL_STAY_AWAY (STAYS_AWAY(0) && STAYS_AWAY(1) && STAYS_AWAY(2))
#endif
#define ALL_KNOW_REPAIR (stage_of_job == REPAIRING && change == DECIDING && ALL_KNOW_TARGET)
inline take_over_both() {
  leaving = current;
  current = target;
  change = MOVING;
  take_over()
}

// A node that the ranks have lost does not join the next coordinator in time: Coordinator::leave().
#define MAY_MISS(n) \
  (stage_of_job == RUNNING && (lost & BIT(n)) && takeovers_left < TAKEOVERS && \
   (HAS_NODE(current, n) || (leaving != 0 && change == MOVING && HAS_NODE(leaving, n))))
inline miss_node(n) {
  EVENT("miss node=%d\n", n);
  begin_repair()
}

// The connection of a rank breaks: JobVersions::lose_connection().
inline disconnect(w) {
  disconnects_left--;
  AFTER_FAULT;
  EVENT("disconnect rank=%d\n", w);
  do
  :: len(to_coordinator[w]) > 0 -> to_coordinator[w] ? m_word, m_epoch, m_round, m_failure, m_kept
  :: else -> break
  od;
  awaited = awaited | BIT(w);
  if
  :: change == ASKING || change == DECIDING -> call_change_off()
  :: else
  fi
}
#define MAY_DISCONNECT(w) \
  (disconnects_left > 0 && FAULT_COMES && stage_of_job < OVER && !IS_AWAY(w) && rank[w].status < SESSION_OVER)

// JobVersions::not_resumed(): a rank that is gone does not come in time. Live ranks do.
#define STAYS_AWAY(w) (!IS_AWAY(w) || rank[w].status >= SESSION_OVER || rank[w].alone)
inline give_up_waiting() {
  EVENT("not_resumed version=%d\n", current);
  closed = closed | awaited;
  awaited = 0;
  if
  :: stage_of_job == REPAIRING -> stage_of_job = OVER; tell_all(ENDED, 0, 0)
  :: else
  fi
}
#endif

// The coordinator stops, and no other one follows. What ranks have said is lost.
inline stop_coordinator() {
  coordinator_losses_left--;
  AFTER_FAULT;
  EVENT("stop_coordinator version=%d\n", current);
  stage_of_job = GONE;
  end_change();
  leaving = 0;
  said_lost = 0;
  closed = 0
}
inline drop_report(w) { to_coordinator[w] ? m_word, m_epoch, m_round, m_failure, m_kept }

#ifdef REPAIRS_TOO_SOON
#define MAY_REPAIR true
#else
#define MAY_REPAIR (!ANY_AWAY)  // JobRepairs::return_of()
#endif
proctype Coordinator() {
end:
  do
#ifdef LATE_FAULTS
  :: ANY_UNFINISHED && resolve < RESOLVED -> resolve++
  :: ANY_UNFINISHED && resolve < RESOLVED -> resolve = 0
#endif
  :: STEP(nempty(to_coordinator[0]) && stage_of_job != GONE, hear(0))
  :: STEP(nempty(to_coordinator[1]) && stage_of_job != GONE, hear(1))
#if RANKS > 2
  :: STEP(nempty(to_coordinator[2]) && stage_of_job != GONE, hear(2))
#endif
  :: STEP(stage_of_job == REPAIRING && change == NO_CHANGE && last_epoch < VERSIONS && MAY_REPAIR,
          begin_change(REPAIR, false))
  :: STEP(MAY_LOSE(0), lose_node(0))
  :: STEP(MAY_LOSE(1), lose_node(1))
#if NODES > 2
  :: STEP(MAY_LOSE(2), lose_node(2))
#endif
#if CUTS > 0
  :: STEP(MAY_CUT(1), cut(1))
  :: STEP(MAY_CUT(1), vanish(1))
#if RANKS > 2
  :: STEP(MAY_CUT(2), cut(2))
  :: STEP(MAY_CUT(2), vanish(2))
#endif
#endif
#if CHANGES > 0
  :: STEP(changes_left > 0 && stage_of_job == RUNNING && change == NO_CHANGE && FAULT_COMES && !HAS_CLOSED && !ANY_AWAY,
          changes_left--; AFTER_FAULT; begin_change(PREPARE, true))
  :: STEP((change == ASKING || change == DECIDING) && stage_of_job == RUNNING, call_change_off())  // Change::tick()
#endif
#if COORDINATOR_LOSSES > 0
  :: STEP(coordinator_losses_left > 0 && FAULT_COMES && stage_of_job < OVER, stop_coordinator())
  :: STEP(stage_of_job == GONE && nempty(to_coordinator[0]), drop_report(0))
  :: STEP(stage_of_job == GONE && nempty(to_coordinator[1]), drop_report(1))
#if RANKS > 2
  :: STEP(stage_of_job == GONE && nempty(to_coordinator[2]), drop_report(2))
#endif
#endif
#ifdef RESUMES
  :: STEP(takeovers_left > 0 && FAULT_COMES && stage_of_job < OVER, take_over())
  :: STEP(takeovers_left > 0 && FAULT_COMES && ALL_KNOW_REPAIR, take_over_both())
#if DISCONNECTS > 0
  :: STEP(MAY_DISCONNECT(0), disconnect(0))
  :: STEP(MAY_DISCONNECT(1), disconnect(1))
#if RANKS > 2
  :: STEP(MAY_DISCONNECT(2), disconnect(2))
#endif
#endif
  :: STEP(MAY_MISS(0), miss_node(0))
  :: STEP(MAY_MISS(1), miss_node(1))
#if NODES > 2
  :: STEP(MAY_MISS(2), miss_node(2))
#endif
  :: STEP(ANY_AWAY && stage_of_job < OVER && ALL_STAY_AWAY, give_up_waiting())
#endif
  od
}
