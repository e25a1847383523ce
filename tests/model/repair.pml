// A model of repair for Spin: how a job goes on, or ends, when a node is lost. docs/repair.md explains the rules,
// README.md how to run the model and how to read its traces. Each transition names the code that it stands for.
//
// A job has one tag. Its operations have parts, each at a shard. All that a job changes to is a version of its plan: a
// repair is a change whose old version is lost. The model checks, in every reachable state of a configuration
// (options.pml):
//   - no write lands in a buffer that the application has again;
//   - success at a rank means that the right result stands in its buffer;
//   - all ranks end an operation alike, unless a rank has cancelled it;
//   - an operation fails only when a node or a rank says so, or when a loss may have destroyed a contribution;
//   - a session ends only when a rank is lost, or the coordinator is and no other one follows;
//   - a rank is interrupted only when a node or a rank is lost;
//   - every operation and every change ends.
// finish.pml has what holds when a job goes on without lost ranks.
//
// The model abstracts: a part is one tile, so pulls and each push are single steps; memory holds the number of the
// round whose result is there; ranks and coordinator talk in order; time-outs are decisions that may come at any
// moment. The next version is planned and taken by its nodes in one step.

#include "options.pml"
#include "state.pml"
#include "finish.pml"
#include "shard.pml"
#include "rank.pml"
#include "coordinator.pml"

// Waits for the end of all operations and changes, so that Spin finds those that do not end.
#ifdef FINISH
#define IS_SETTLED ((change == NO_CHANGE && stage_of_job == RUNNING) || stage_of_job >= OVER)
#else
#define IS_SETTLED ((change == NO_CHANGE && stage_of_job == RUNNING) || stage_of_job >= OVER || ANY_OVER)
#endif
proctype Application() {
  !ANY_UNFINISHED && IS_SETTLED
}

init {
  byte v, p, w;
  atomic {
    d_step {
      for (i : 0 .. PARTS - 1) {
        owner[AT(1, i)] = i;
        SHARD(1, i).open = ALL
      }
      for (j : 0 .. RANKS - 1) {
        rank[j].now = 1;
        rank[j].round = 1;
        rank[j].next = 1
      }
#ifdef FINISH
      members[1] = ALL;
#endif
      first_round = 1
    }
    run Coordinator();
    run Application();
    for (w : 0 .. RANKS - 1) {
      run Rank(w)
    }
#ifdef SHARDS_STEP
    for (v : 1 .. VERSIONS) {
      for (p : 0 .. PARTS - 1) {
        run Shard(v, p)
      }
    }
#endif
    v = 0; p = 0; w = 0
  }
}
