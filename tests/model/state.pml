// The state of the model, the requirements that it checks, and the trace.

// -- Requirements --------------------------------------------------------------------------------
// Each requirement has a variable of its name, so that the failed assertion names it. A run in which
// an operation never ends is an invalid end state: Spin reports it without an assertion.
hidden byte application_buffer_written;  // a write lands in memory that the application has again
hidden byte wrong_result;                // a rank reports success, and its buffer holds something else
hidden byte verdicts_differ;             // an operation succeeds at one rank and fails at another
hidden byte operation_fails;             // an operation fails although only nodes were lost
hidden byte session_ends;                // a session ends although only nodes were lost
hidden byte needless_interrupt;          // a rank is interrupted although nothing is lost
hidden byte wrong_round;                 // a rank counts another round than the application
// And of a job that finishes without lost ranks:
hidden byte contributors_mixed;          // two parts of a result have contributions of different ranks
hidden byte contributors_differ;         // a result has contributions of other ranks at another survivor
hidden byte wrong_contributors;          // not those of the version, without the rank itself, or fewer than the quorum
hidden byte left_out_succeeds;           // at a rank that is left out, more than the last round differs
#define REQUIRE(violation, condition) violation = !(condition); assert(!violation)

// -- Goals ---------------------------------------------------------------------------------------
// Situations that a check must have met, or it has shown nothing about them.
#define GOAL_CLOSED 1      // an interrupted operation succeeds because it had succeeded elsewhere
#define GOAL_REPEATED 2    // an interrupted operation succeeds in another version than it began in
#define GOAL_AGAIN 3       // a rank does a round again that has ended there
#define GOAL_SPOILED 4     // an operation in place fails at all ranks for a lost node
#define GOAL_LATER 5       // a post ends at once, because its round failed before a repair
#define GOAL_SECOND 6      // a repair is over after its first attempt was called off
#define GOAL_MOVING 7      // a rank is interrupted while it uses two versions
#define GOAL_OVER 8        // all sessions end because a rank is lost
#define GOAL_ALONE 9       // a job ends its rounds without a coordinator
#define GOAL_LATE_WRITE 10 // a node pushes in a version that a rank has fenced off
#define GOAL_TAKEN_OVER 11 // a repair is over at another coordinator than the one to which a rank reported the loss
#define GOAL_FOLLOWS 12    // a rank that knows a decision goes over because the next coordinator has the new version
#define GOAL_MENDED 13     // the same in a repair
#define GOAL_KNEW 14       // an interrupted rank comes to a coordinator that has a version which the rank knew to come
#define GOAL_OFF 15        // a rank that knows a decision learns from the next coordinator that the change is off
#define GOAL_LEAVES 16     // a change that the next coordinator has taken over ends
#define GOAL_WITHOUT 17    // an operation succeeds without the rank that was lost in the middle of it
#define GOAL_WITH 18       // an operation succeeds with the contribution of a rank that has been left out since
#define GOAL_BOTH 19       // a repair that leaves one rank out is called off, and the next one leaves two out
#define GOAL_QUORUM 20     // a session ends because too few ranks are left
#define GOAL_LEFT_OK 21    // survivors do a round without a rank that has ended it well
#define GOAL_LATE_OK 22    // a rank ends a round well that the survivors have ended without it
#define GOAL_NEEDED 23     // an operation ends at once because it needs a rank that has been left out
#ifdef GOAL
#define REACHES_GOAL(goal, condition) assert(!((goal) == GOAL && (condition)))
#else
#define REACHES_GOAL(goal, condition) skip
#endif

// -- Trace ---------------------------------------------------------------------------------------
#ifdef TRACE
#define EVENT(...) printf(__VA_ARGS__)
#else
#define EVENT(...) skip
#endif

#define BIT(n) (1 << (n))
#define ALL (BIT(RANKS) - 1)

// -- Messages ------------------------------------------------------------------------------------
// From the coordinator to a rank, with the epoch of the version that it is about
// (client/plans/plan_news.h, control/coordinator/state/change.h):
//   PREPARE, REPAIR  open the next version, and hold posts back; REPAIR: the present one is lost
//   DECIDED          the first round of the next version, and how the rounds before it failed (0: well)
//   GO               all ranks know the decision
//   LEAVE            no rank uses the old version
//   CALLED_OFF       the next version is dropped
//   ENDED            the job is not repaired
// From a rank to the coordinator:
//   LOST    this version is lost
//   READY   the next version is open here: first round that has not ended, how the last one failed (0: well),
//           whether it is kept
//   KNOWS   the decision has come
//   CANNOT  the next version cannot be used
//   MOVED, LEFT  the old version is not needed; is closed
//   CLOSED  the connection has ended
mtype = { PREPARE, REPAIR, DECIDED, GO, LEAVE, CALLED_OFF, ENDED, LOST, READY, KNOWS, CANNOT, MOVED, LEFT, CLOSED };
#ifdef FINISH
#define RANK_LOSSES (CUTS + 2 * CRASHES)  // a repair may begin before the coordinator hears of the crash
#else
#define RANK_LOSSES CRASHES
#endif
#define VERSIONS (1 + LOSSES + BREAKS + CHANGES + RANK_LOSSES + TAKEOVERS + 2 * DISCONNECTS)  // as many as a run can have
// Each version adds few messages. A channel that is full is an error of the model, which Spin reports.
chan to_rank[RANKS] = [2 * VERSIONS + 4] of { mtype, byte, byte, byte };  // word, epoch, first round, failure
chan to_coordinator[RANKS] = [VERSIONS + 5] of { mtype, byte, byte, byte, byte }; // word, epoch, next round, failure, kept

// Rounds count from 1. A "failure" is 0 when the last round that has ended succeeded. Otherwise it is the first
// round of those that did not succeed (RoundFailure::succeeded of client/operations/tag_rounds.h).

// -- Versions and nodes --------------------------------------------------------------------------
#define AT(v, p) (((v) - 1) * PARTS + (p))
byte owner[VERSIONS * PARTS];  // the node that has the part in the version
byte lost;                     // the nodes that the coordinator has lost, or that return as new ones
#define IS_LOST(v, p) (lost & BIT(owner[AT(v, p)]))
#if PARTS == 1
#define HAS_LOST_NODE(v) IS_LOST(v, 0)
#define HAS_NODE(v, n) (owner[AT(v, 0)] == (n))
#define ALL_PARTS 1
#else
#define HAS_LOST_NODE(v) (IS_LOST(v, 0) || IS_LOST(v, 1))
#define HAS_NODE(v, n) (owner[AT(v, 0)] == (n) || owner[AT(v, 1)] == (n))
#define ALL_PARTS 3
#endif

// The ranks that have a place in the version.
#ifdef FINISH
byte members[VERSIONS + 1];
#define MEMBERS(v) members[v]
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))
#define MEMBER_COUNT(v) COUNT(members[v])
byte left_out;                 // the ranks that the next version leaves out
#define IS_LEFT_OUT(w) (left_out & BIT(w))
#else
#define MEMBERS(v) ALL
#define MEMBER_COUNT(v) RANKS
#define IS_LEFT_OUT(w) false
#endif

// The shard of one part in one version. A node has sessions for each version, so shards of several versions at one
// node have nothing in common.
typedef ShardState {
  byte open;     // the ranks whose connection is there
  byte pushing;  // the round whose result is on its way; 0: none
  byte pushed;   // the ranks at which it stands
  byte done;     // the last round that has succeeded
  byte failed;   // the rounds that have failed, a bit each
  bool right;    // the last sum is that of the contributions of its round
#ifdef STANDS_FIRST
  byte known;    // the ranks that know that the result of the round `done` stands at all
#endif
#ifdef STALE_STORES
  byte strangers; // ranks without a place in the version whose contributions it has too
#endif
};
ShardState shard[VERSIONS * PARTS];
#define SHARD(v, p) shard[AT(v, p)]
// A rank has left the version, so its nodes report a lost rank to the others.
#if PARTS == 1
#define RANK_IS_GONE(v) (SHARD(v, 0).open != MEMBERS(v))
#else
#define RANK_IS_GONE(v) (SHARD(v, 0).open != MEMBERS(v) || SHARD(v, 1).open != MEMBERS(v))
#endif

// -- Coordinator ---------------------------------------------------------------------------------
#define RUNNING 0
#define REPAIRING 1
#define OVER 2
#define GONE 3  // the coordinator has stopped
byte stage_of_job;
byte current = 1;    // the version that ranks use
byte leaving;        // and the one before it, while ranks move
byte target;         // the version of the change in progress
byte last_epoch = 1;
#define NO_CHANGE 0
#define ASKING 1
#define DECIDING 2
#define MOVING 3
#define LEAVING 4
byte change;
byte reported;       // the ranks whose report the change's stage has
byte said_lost;      // the ranks that have reported the loss under repair
byte closed;         // the ranks whose connection has ended
#ifdef RESUMES
byte awaited;        // the ranks that have not come to this coordinator yet, or must come again
byte takeovers_left = TAKEOVERS, disconnects_left = DISCONNECTS;
#if defined(RUNS_UNNOTED) || defined(RUNS_NOTED_EARLY)
byte stored = 1;     // the version that the store has
#endif
#ifdef GOAL
bool loss_reported, taken_over;  // when the coordinator stopped: a rank had reported the loss; ranks moved
#endif
#define IS_AWAY(w) (awaited & BIT(w))
#define ANY_AWAY (awaited != 0)
#else
#define IS_AWAY(w) false
#define ANY_AWAY false
#endif
// Of the reports so far, and then of the decision:
byte first_round;
byte furthest;       // how many ranks are furthest ahead
byte furthest_kept;  // how many of these have kept their last round
bool has_succeeded;  // at one of these
byte succeeded;      // the largest of all ranks

// -- Ranks ---------------------------------------------------------------------------------------
#define COMPUTING 0  // the application has its buffers
#define POSTED 1     // an operation is outstanding, and the buffers belong to libtally
#define ENDED_HERE 2 // the operation has ended, and the application has not taken its completion
#define FINISHED 3   // all rounds have ended
#define SESSION_OVER 4
#define CRASHED 5
// The stages of a change at a rank (client/operations/plan_switch.h). MOVING as above.
#define STEADY 0
#define HOLDING 1
#define KNOWING 2
typedef RankState {
  byte status;
  byte round;              // of the application's operation, or else of its next one
  // Versions (client/versions/plan_versions.h); 0: there is none.
  byte now, old, coming;
  // The books: the round of the next post, and the failure.
  byte next, failure, old_next, old_failure;
  // The outstanding operation.
  byte version;            // that carries it; 0: it waits
  byte number;             // its round in the book
  byte parts_ended;
  bool part_failed, cancelled, was_interrupted;
  bool verdict;            // with ENDED_HERE: success
  // The change (client/plans/plan_change.h).
  byte stage, epoch, first, decided_failure;
  bool behind, interrupted, refused, said_moved, alone;
#ifdef RESUMES
  bool looks;              // for the next coordinator
  byte known;              // the version of which the rank knew the decision when it was interrupted; 0: there was none
#endif
  // Repairs (client/operations/post_placement.h, pending_operations.h).
  byte kept;               // the eager round whose contribution is kept
  bool again;              // that round is done again
  byte again_version;      // that carries it; 0: it waits
  byte closed_next, closed_end;  // rounds that have ended before their posts
};
RankState rank[RANKS];
byte result[RANKS * PARTS];  // the round whose result a buffer holds; 0: what the application wrote
#define RESULT(w, p) result[(w) * PARTS + (p)]
#ifdef FINISH  // and the ranks whose contributions the result has
#define RESULT_OF(round, set) ((round) + 16 * (set))
#define ROUND_OF(held) ((held) & 15)
#define SET_OF(held) ((held) >> 4)
#else
#define RESULT_OF(round, set) (round)
#define ROUND_OF(held) (held)
#endif
#define WRONG 15             // in place of a round: the sum of something else
#define HOLDS(w) (rank[w].stage == HOLDING || rank[w].stage == KNOWING)
#define NEEDS_OLD(w) \
  (rank[w].behind || rank[w].version == rank[w].old || (rank[w].again && rank[w].again_version == rank[w].old))

// -- What is known of the rounds, for the requirements -------------------------------------------
#define SUCCEEDS 1
#define FAILS 2
byte outcome[ROUNDS + 1];  // of each round, at the first rank that ended it; 0: none yet
byte failed_rounds;        // a node or a rank has ended this round with an error
byte excused_rounds;       // ranks may differ: a rank has cancelled, or a round failed that is done again

byte losses_left = LOSSES, breaks_left = BREAKS, changes_left = CHANGES, failures_left = FAILURES;
byte cancels_left = CANCELS, crashes_left = CRASHES, coordinator_losses_left = COORDINATOR_LOSSES;
#define UNFINISHED(w) (rank[w].status < FINISHED)
#if RANKS == 2
#define ANY_UNFINISHED (UNFINISHED(0) || UNFINISHED(1))
#else
#define ANY_UNFINISHED (UNFINISHED(0) || UNFINISHED(1) || UNFINISHED(2))
#endif
#if RANKS == 2
#define ANY_OVER (rank[0].status >= SESSION_OVER || rank[1].status >= SESSION_OVER)
#else
#define ANY_OVER (rank[0].status >= SESSION_OVER || rank[1].status >= SESSION_OVER || rank[2].status >= SESSION_OVER)
#endif
byte cuts_left = CUTS;
#define IS_ANY_LOST (losses_left < LOSSES || breaks_left < BREAKS || cuts_left < CUTS || ANY_OVER)  // a node, or a rank
// A simulated run chooses among the steps that are possible, so it would nearly always begin with a fault. Before each
// fault its coordinator must therefore choose the same twice in a row.
#ifdef LATE_FAULTS
byte resolve;
#define RESOLVED 2
#define FAULT_COMES (ANY_UNFINISHED && resolve == RESOLVED)
#define AFTER_FAULT resolve = 0
#else
#define FAULT_COMES ANY_UNFINISHED
#define AFTER_FAULT skip
#endif

// Variables of single steps. They hold nothing between steps.
hidden mtype m_word;
hidden byte m_epoch, m_round, m_failure, m_kept;
hidden byte h, i, j, k, x, own, carrier;
hidden byte flag, good;

// A transition. (The skip is for Spin: the last statement of a d_step must not be a loop.)
#define STEP(guard, action) d_step { (guard) -> action; skip }
