// The options of the model, each a macro (-DNAME or -DNAME=value). run.py has the configurations that
// are checked.
//
// Size:
//   RANKS     ranks of the job: 2 or 3
//   NODES     nodes of the cluster: 2 or 3. Those that carry no part are spares
//   PARTS     parts of an operation, each at a shard of its own: 1 or 2. Node p has part p at the start
//   ROUNDS    rounds of the one tag
// Faults, by how many times they may happen. The default of all is 0:
//   LOSSES    the coordinator loses a node. The node may have stopped, or it lives on and does not know
//   BREAKS    a rank alone loses a node: it reports that, or cannot take the next version
//   CHANGES   planned changes to another version. Node p+1 gets part p
//   FAILURES  a node ends a round with an error: a deadline, a mismatch, damaged bytes
//   CANCELS   a rank cancels its operation
//   CRASHES   a rank stops
//   CUTS      with FINISH: the coordinator gives up a rank. It lives on and does not know, or has stopped with its machine
//   COORDINATOR_LOSSES  the coordinator stops (at most 1); what it has sent may be lost
//   TAKEOVERS the coordinator stops, and the next one takes over the job from the store; with COORDINATOR_LOSSES the last
//             one stops for good
//   DISCONNECTS  the connection of a rank to the coordinator breaks; what is on its way may be lost, and the rank returns
//   LATE_GO   the coordinator sends `go` for a decision that it has called off, when a rank says late that it knows
// Policy of the job:
//   FINISH    a lost rank is left out, and the others go on; without it the job ends. Ranks are lost from the last to
//             the second, because they differ in nothing but their number
//   NEEDED    with FINISH: the operation of this round needs the last rank, as its root for example
//   QUORUM    with FINISH: the job ends when fewer ranks than this are left
// Kind of the operations; without an option they are out of place:
//   IN_PLACE  the result replaces the contribution in the same buffer
//   PRESERVE  with IN_PLACE: the client keeps a copy of the contribution
//   EAGER     contributions travel with notices, results with completions
// Way of the results:
//   OTHER_WAY with PARTS=2: part 0 is the sums and part 1 their results, whose node is another one
// Mutants. Each leaves out one rule, and the check must find the error:
//   NO_COMMIT          a rank gets its completion when the result stands there, and perhaps not at others
//   NO_FENCE           an interrupted rank leaves all nodes their access
//   FENCES_LOST_ONLY   an interrupted rank fences the lost nodes of a version, and not the others
//   NO_CLOSING         an interrupted operation is posted again although its round has ended elsewhere
//   FIRST_IS_MINIMUM   the decision takes the smallest round, not the largest
//   EAGER_NOT_KEPT     no rank keeps contributions of eager rounds
//   EAGER_STANDS       with EAGER_NOT_KEPT: an eager round that succeeded elsewhere is closed like any other
//   NOT_SPOILED        an interrupted operation in place is posted again without a copy
//   NOT_RESTORED       with PRESERVE: the copy is not written back
//   GO_EARLY           the coordinator sends `go` with the decision, before all ranks know it
//   FAILURES_UNSAID    a rank does not report that its last round failed
//   CALLS_OFF_REPAIR   a rank that knows the decision of a repair calls it off for a lost node
//   STALE_GO           with LATE_GO: a rank that holds its posts back obeys every `go`
//   RUNS_UNNOTED       with TAKEOVERS: the store does not note that ranks use another version
//   RUNS_NOTED_EARLY   with TAKEOVERS: the store notes the version when the coordinator decides, before all ranks know
//   NEXT_UNNAMED       a rank that knows a decision asks the next coordinator for the old version only
//   KNOWN_UNNAMED      a rank that knew a decision when it was interrupted asks for the lost version only
//   LOSS_UNSAID        an interrupted rank does not report its loss to the next coordinator
//   MOVED_UNSAID       a rank that has reported that it has moved does not report it to the next coordinator
//   REPAIRS_TOO_SOON   the next coordinator begins a repair before all ranks have come
//   LEAVE_UNSAID       with DISCONNECTS: a rank that returns is not told again that no rank uses the old version
//   MOVING_FORGOTTEN   the next coordinator does not go on with a change that ranks act on
// Mutants of FINISH:
//   EAGER_USED         operations are eager
//   PARTS_KEPT         a part that has ended in the lost version is not done again
//   DEAD_COUNTED       what a rank has reported counts in all later decisions, also when it has been left out
//   DECIDES_EARLY      the coordinator decides when one survivor has not reported
//   STALE_STORES       what a rank that was left out sends to its old version reaches the new one
// Rules that the protocol does not have:
//   UNIFORM            requires that a rank that is left out has no result that the survivors have not
//   NODES_SAY          nodes say which rounds of a lost version have ended well, before the coordinator decides
//   STANDS_FIRST       before the first completion, each rank knows that the result stands at all
// Mutants that had been in the code:
//   UNUSED_TAG_ENDED   a tag that a rank has not used counts as moved when the old version is lost
//   OLD_END_FORGOTTEN  a rank forgets how its last round in the old version ended when it leaves that
//   OLD_FAILURE_HIDDEN a failure in the new version hides one in the old version
//   INHERITS_AT_GO     the new version begins with the last failure of the old one, where rounds still end
//   KEPT_WHEN_TAKEN    an eager round is kept from the time when the application takes its completion
//   AGAIN_MISCOUNTED   a post behind a round that is to be done again gets the number of that round
//   CALLS_OFF_KNOWING  a rank that knows the decision of a planned change calls it off for a lost node
// Output:
//   TRACE         a line for each transition (README.md has the format)
//   LATE_FAULTS   for simulated runs: faults come later, when operations have ended
//   GOAL=number   fails when a run reaches this goal (state.pml): shows that a configuration has such runs

#ifndef RANKS
#define RANKS 2
#endif
#ifndef NODES
#define NODES 2
#endif
#ifndef PARTS
#define PARTS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef CHANGES
#define CHANGES 0
#endif
#ifndef FAILURES
#define FAILURES 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef COORDINATOR_LOSSES
#define COORDINATOR_LOSSES 0
#endif

#ifndef CUTS
#define CUTS 0
#endif
#ifndef NEEDED
#define NEEDED 0
#endif
#ifndef QUORUM
#define QUORUM 1
#endif

#ifndef TAKEOVERS
#define TAKEOVERS 0
#endif
#ifndef DISCONNECTS
#define DISCONNECTS 0
#endif
#if TAKEOVERS > 0 || DISCONNECTS > 0
#define RESUMES  // ranks come to the coordinator again
#endif

#if RANKS < 2 || RANKS > 3
#error "RANKS must be 2 or 3"
#endif
#if NODES < 2 || NODES > 3
#error "NODES must be 2 or 3"
#endif
#if PARTS < 1 || PARTS > 2
#error "PARTS must be 1 or 2"
#endif
#if ROUNDS > 7
#error "ROUNDS must be at most 7, because a byte holds a set of rounds"
#endif
#if defined(OTHER_WAY) && (PARTS != 2 || defined(EAGER) || defined(FINISH))
#error "OTHER_WAY needs PARTS=2 and has neither EAGER nor FINISH"
#endif
#if defined(EAGER) && (PARTS > 1 || defined(IN_PLACE))
#error "eager operations have one part, and the client keeps their contributions, so IN_PLACE adds nothing"
#endif
#if defined(PRESERVE) && !defined(IN_PLACE)
#error "PRESERVE is for IN_PLACE"
#endif

#ifdef FINISH
#if defined(EAGER) && !defined(EAGER_USED)
#error "a job that finishes without lost ranks has no eager operations"
#endif
#if defined(IN_PLACE) && !defined(PRESERVE)
#error "a job that finishes without lost ranks preserves contributions"
#endif
#if COORDINATOR_LOSSES > 0 || TAKEOVERS > 0 || DISCONNECTS > 0
#error "FINISH has one coordinator, which stays"
#endif
#elif CUTS > 0
#error "CUTS is for FINISH"
#endif

// A loss may destroy the contribution of an interrupted operation.
#if defined(IN_PLACE) && !defined(PRESERVE)
#define MAY_SPOIL
#endif
