"""What run.py checks: configurations of the model in which its requirements hold, mutants in which they must not, and
situations that must occur. options.pml explains the options, state.pml the requirements and goals."""

import dataclasses

FAST, QUICK, SOAK = range(3)  # the first tier that includes a check

NEVER_ENDS = "invalid end state"
GOALS = {"closed": 1, "repeated": 2, "again": 3, "spoiled": 4, "later": 5, "second": 6, "moving": 7, "over": 8,
         "alone": 9, "late_write": 10, "taken_over": 11, "follows": 12, "mended": 13, "knew": 14, "off": 15,
         "leaves": 16, "without": 17, "with": 18, "both": 19, "quorum": 20, "left_ok": 21, "late_ok": 22, "needed": 23}


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    options: tuple[str, ...]
    tier: int = QUICK
    finds: tuple[str, ...] = ()  # requirements of which one must be violated; none: all must hold
    goal: str = ""  # a run must reach it
    ends: bool = False  # also shows that no run goes on for ever

    def macros(self) -> dict[str, str]:
        """The options and their values. An option without a value has the value 1."""
        return {name: value or "1" for name, _, value in (option.partition("=") for option in self.options)}


def _check(name: str, options: str, tier: int = QUICK, **more) -> Check:
    return Check(name, tuple(options.split()), tier, **more)


# Budgets are upper bounds, so each configuration includes those with fewer faults.
HOLD = [
    _check("out-of-place", "LOSSES=2", FAST, ends=True),
    _check("in-place", "LOSSES=2 IN_PLACE", FAST, ends=True),
    _check("preserve", "LOSSES=2 IN_PLACE PRESERVE"),
    _check("eager", "EAGER LOSSES=2", FAST, ends=True),
    _check("breaks", "LOSSES=1 BREAKS=2"),
    _check("parts", "PARTS=2 NODES=3 LOSSES=2"),
    _check("parts-in-place", "PARTS=2 LOSSES=2 IN_PLACE"),
    _check("parts-preserve", "PARTS=2 LOSSES=2 IN_PLACE PRESERVE", SOAK),
    _check("change", "LOSSES=1 CHANGES=1", FAST),
    _check("change-failures", "LOSSES=1 CHANGES=1 FAILURES=2"),
    _check("change-in-place", "LOSSES=1 CHANGES=1 FAILURES=1 IN_PLACE"),
    _check("change-eager", "EAGER LOSSES=1 CHANGES=1 FAILURES=1"),
    _check("change-breaks", "LOSSES=1 CHANGES=1 BREAKS=1"),
    _check("change-parts", "PARTS=2 LOSSES=1 CHANGES=1"),
    _check("failures", "ROUNDS=3 LOSSES=2 FAILURES=2"),
    _check("failures-in-place", "LOSSES=2 FAILURES=2 IN_PLACE", SOAK),
    _check("failures-eager", "EAGER LOSSES=2 FAILURES=1"),
    _check("cancels", "LOSSES=1 CANCELS=2 FAILURES=1"),
    _check("cancels-eager", "EAGER LOSSES=1 CANCELS=1 FAILURES=1"),
    _check("crash", "LOSSES=1 CRASHES=1", FAST, ends=True),
    _check("crash-change", "LOSSES=1 CHANGES=1 CRASHES=1"),
    _check("coordinator", "LOSSES=1 COORDINATOR_LOSSES=1", FAST, ends=True),
    _check("coordinator-change", "LOSSES=1 CHANGES=1 COORDINATOR_LOSSES=1"),
    _check("late-go", "LOSSES=2 LATE_GO"),
    _check("takeover", "LOSSES=1 TAKEOVERS=1", FAST, ends=True),
    _check("takeover-twice", "LOSSES=1 TAKEOVERS=2"),
    _check("takeover-in-place", "LOSSES=1 TAKEOVERS=1 IN_PLACE"),
    _check("takeover-eager", "EAGER LOSSES=1 TAKEOVERS=1"),
    _check("takeover-breaks", "BREAKS=1 TAKEOVERS=1"),
    _check("takeover-change", "ROUNDS=1 LOSSES=1 CHANGES=1 TAKEOVERS=1"),
    _check("takeover-change-in-place", "CHANGES=1 TAKEOVERS=1 IN_PLACE"),
    _check("takeover-crash", "LOSSES=1 CRASHES=1 TAKEOVERS=1"),
    _check("takeover-coordinator", "LOSSES=1 TAKEOVERS=1 COORDINATOR_LOSSES=1"),
    _check("disconnect", "LOSSES=1 DISCONNECTS=1", ends=True),
    _check("disconnect-change", "CHANGES=1 DISCONNECTS=2 IN_PLACE"),
    _check("ranks", "RANKS=3 LOSSES=1 FAILURES=1"),
    _check("ranks-in-place", "RANKS=3 LOSSES=1 FAILURES=1 IN_PLACE", SOAK),
    _check("ranks-eager", "RANKS=3 EAGER LOSSES=1"),
    _check("ranks-losses", "RANKS=3 LOSSES=2 FAILURES=1", SOAK),
    _check("ranks-losses-eager", "RANKS=3 EAGER LOSSES=2", SOAK),
    _check("ranks-change", "RANKS=3 LOSSES=1 CHANGES=1 ROUNDS=1", SOAK),
    _check("ranks-cancels", "RANKS=3 EAGER LOSSES=1 FAILURES=1 CANCELS=1", SOAK),
    _check("ranks-crash", "RANKS=3 LOSSES=1 BREAKS=1 CRASHES=1 ROUNDS=1", SOAK),
    _check("cancels-breaks", "LOSSES=1 BREAKS=1 CANCELS=2 FAILURES=1", SOAK),
    _check("parts-breaks", "PARTS=2 NODES=3 LOSSES=2 BREAKS=1", SOAK),
    _check("change-parts-failures", "PARTS=2 LOSSES=1 CHANGES=1 FAILURES=1", SOAK),
    _check("change-losses", "LOSSES=2 CHANGES=1 FAILURES=1", SOAK),
    _check("change-rounds", "ROUNDS=3 LOSSES=1 CHANGES=1 FAILURES=2 CANCELS=1", SOAK),
    _check("change-twice", "LOSSES=1 CHANGES=2", SOAK),
    _check("change-eager-breaks", "EAGER LOSSES=1 BREAKS=1 CHANGES=1", SOAK),
    _check("crash-breaks", "LOSSES=1 BREAKS=1 CHANGES=1 CRASHES=1", SOAK),
    _check("coordinator-breaks", "LOSSES=1 BREAKS=1 CHANGES=1 COORDINATOR_LOSSES=1", SOAK),
    _check("takeover-losses", "LOSSES=2 TAKEOVERS=1", SOAK),
    _check("takeover-losses-breaks", "LOSSES=1 BREAKS=1 TAKEOVERS=1", SOAK),
    _check("takeover-failures", "LOSSES=1 FAILURES=1 CANCELS=1 TAKEOVERS=1", SOAK),
    _check("takeover-failures-eager", "EAGER LOSSES=1 FAILURES=1 TAKEOVERS=1", SOAK),
    _check("takeover-change-rounds", "LOSSES=1 CHANGES=1 TAKEOVERS=1", SOAK),
    _check("takeover-change-eager", "EAGER LOSSES=1 CHANGES=1 TAKEOVERS=1", SOAK),
    _check("takeover-change-crash", "ROUNDS=1 LOSSES=1 CHANGES=1 CRASHES=1 TAKEOVERS=1", SOAK),
    _check("takeover-disconnect", "LOSSES=1 TAKEOVERS=1 DISCONNECTS=1", SOAK),
    _check("disconnect-twice", "LOSSES=1 DISCONNECTS=2", SOAK),
    _check("disconnect-losses-change", "ROUNDS=1 LOSSES=1 CHANGES=1 DISCONNECTS=1", SOAK),
    _check("disconnect-crash", "LOSSES=1 CRASHES=1 DISCONNECTS=1", SOAK),
    _check("ranks-takeover", "RANKS=3 ROUNDS=1 LOSSES=1 TAKEOVERS=1", SOAK),
]

# Results that go another way than the sums came.
HOLD += [
    _check("other-way", "PARTS=2 NODES=3 LOSSES=2 OTHER_WAY"),
    _check("other-way-in-place", "PARTS=2 LOSSES=2 IN_PLACE OTHER_WAY"),
    _check("other-way-failures", "PARTS=2 LOSSES=1 FAILURES=1 OTHER_WAY"),
    _check("other-way-change", "PARTS=2 LOSSES=1 CHANGES=1 OTHER_WAY"),
    _check("other-way-cancels", "PARTS=2 LOSSES=1 FAILURES=1 CANCELS=1 OTHER_WAY", SOAK),
    _check("other-way-preserve", "PARTS=2 LOSSES=2 IN_PLACE PRESERVE OTHER_WAY", SOAK),
]

# Jobs that finish without lost ranks.
HOLD += [
    _check("finish", "FINISH CUTS=1", FAST, ends=True),
    _check("finish-crash", "FINISH CRASHES=1 LOSSES=1"),
    _check("finish-node", "FINISH CUTS=1 LOSSES=1", ends=True),
    _check("finish-preserve", "FINISH CUTS=1 LOSSES=1 IN_PLACE PRESERVE"),
    _check("finish-change", "FINISH CUTS=1 CHANGES=1"),
    _check("finish-ranks", "RANKS=3 FINISH CUTS=1"),
    _check("finish-ranks-crash", "RANKS=3 FINISH CRASHES=1", FAST, ends=True),
    _check("finish-ranks-parts", "RANKS=3 PARTS=2 FINISH CUTS=1 ROUNDS=1"),
    _check("finish-ranks-needed", "RANKS=3 FINISH CUTS=1 NEEDED=1"),
    _check("finish-two", "RANKS=3 FINISH CUTS=2 ROUNDS=1"),
    _check("finish-quorum", "RANKS=3 FINISH CUTS=1 CRASHES=1 ROUNDS=1 QUORUM=2"),
    _check("finish-nodes-say", "RANKS=3 FINISH CUTS=1 UNIFORM NODES_SAY", SOAK),
    _check("finish-stands-first", "FINISH CUTS=1 LOSSES=1 UNIFORM STANDS_FIRST", SOAK),
    _check("finish-failures", "FINISH CUTS=1 FAILURES=1", SOAK),
    _check("finish-two-crash", "RANKS=3 FINISH CRASHES=2 ROUNDS=1", SOAK),
    _check("finish-ranks-node", "RANKS=3 FINISH CUTS=1 LOSSES=1", SOAK),
    _check("finish-ranks-node-crash", "RANKS=3 FINISH CRASHES=1 LOSSES=1 IN_PLACE PRESERVE", SOAK),
    _check("finish-ranks-node-parts", "RANKS=3 PARTS=2 FINISH CUTS=1 LOSSES=1 ROUNDS=1", SOAK),
    _check("finish-ranks-change", "RANKS=3 FINISH CUTS=1 CHANGES=1 ROUNDS=1", SOAK),
    _check("finish-ranks-failures", "RANKS=3 FINISH CUTS=1 FAILURES=1 CANCELS=1", SOAK),
    _check("finish-breaks", "FINISH CUTS=1 LOSSES=1 BREAKS=1", SOAK),
    _check("finish-two-rounds", "RANKS=3 FINISH CUTS=2", SOAK),
    _check("finish-two-each", "RANKS=3 FINISH CUTS=1 CRASHES=1", SOAK),
    _check("finish-two-node", "RANKS=3 FINISH CUTS=2 LOSSES=1 ROUNDS=1", SOAK),
    _check("finish-stands-first-ranks", "RANKS=3 FINISH CUTS=1 LOSSES=1 UNIFORM STANDS_FIRST", SOAK),
]

MUTANTS = [
    _check("no-commit", "LOSSES=1 NO_COMMIT", FAST, finds=("wrong_result",)),
    _check("other-way-no-commit", "PARTS=2 NODES=3 LOSSES=1 OTHER_WAY NO_COMMIT", finds=("wrong_result",)),
    _check("no-fence", "LOSSES=1 NO_FENCE", FAST, finds=("application_buffer_written",)),
    _check("fences-lost-only", "PARTS=2 NODES=3 LOSSES=1 FENCES_LOST_ONLY", FAST,
           finds=("application_buffer_written",)),
    _check("no-closing", "LOSSES=1 NO_CLOSING", FAST, finds=(NEVER_ENDS,)),
    _check("first-is-minimum", "LOSSES=1 FIRST_IS_MINIMUM", FAST, finds=("wrong_round",)),
    _check("eager-not-kept", "EAGER LOSSES=1 EAGER_NOT_KEPT", FAST, finds=("operation_fails",)),
    _check("eager-stands", "EAGER LOSSES=1 EAGER_NOT_KEPT EAGER_STANDS", finds=("wrong_result",)),
    _check("not-spoiled", "LOSSES=1 IN_PLACE NOT_SPOILED", FAST, finds=("wrong_result",)),
    _check("not-restored", "LOSSES=1 IN_PLACE PRESERVE NOT_RESTORED", finds=("wrong_result",)),
    _check("go-early", "CHANGES=1 COORDINATOR_LOSSES=1 GO_EARLY", FAST, finds=("session_ends",)),
    _check("failures-unsaid", "LOSSES=1 FAILURES=1 FAILURES_UNSAID", FAST, finds=("wrong_result",)),
    _check("calls-off-repair", "LOSSES=2 CALLS_OFF_REPAIR", finds=("session_ends",)),
    _check("stale-go", "LOSSES=2 LATE_GO STALE_GO", FAST, finds=("wrong_round",)),
    _check("unused-tag-ended", "LOSSES=1 CHANGES=1 UNUSED_TAG_ENDED", finds=("wrong_round", "wrong_result")),
    _check("old-end-forgotten", "LOSSES=1 CHANGES=1 FAILURES=1 OLD_END_FORGOTTEN", finds=("wrong_result",)),
    _check("old-failure-hidden", "LOSSES=1 CHANGES=1 FAILURES=2 OLD_FAILURE_HIDDEN", finds=("wrong_result",)),
    _check("inherits-at-go", "ROUNDS=3 LOSSES=1 CHANGES=1 FAILURES=2 INHERITS_AT_GO", finds=("operation_fails",)),
    _check("kept-when-taken", "EAGER LOSSES=1 KEPT_WHEN_TAKEN", finds=("operation_fails",)),
    _check("again-miscounted", "EAGER LOSSES=2 AGAIN_MISCOUNTED", finds=("wrong_round",)),
    _check("calls-off-knowing", "LOSSES=1 CHANGES=1 CALLS_OFF_KNOWING", finds=("session_ends",)),
    _check("runs-unnoted", "LOSSES=1 TAKEOVERS=1 RUNS_UNNOTED", FAST, finds=("session_ends",)),
    _check("runs-noted-early", "LOSSES=1 TAKEOVERS=1 RUNS_NOTED_EARLY", finds=("session_ends",)),
    _check("next-unnamed", "LOSSES=1 TAKEOVERS=1 NEXT_UNNAMED", finds=("session_ends",)),
    _check("known-unnamed", "LOSSES=1 CHANGES=1 TAKEOVERS=1 KNOWN_UNNAMED", finds=("session_ends",)),
    _check("loss-unsaid", "BREAKS=1 TAKEOVERS=1 LOSS_UNSAID", FAST, finds=(NEVER_ENDS,)),
    _check("moved-unsaid", "CHANGES=1 TAKEOVERS=1 MOVED_UNSAID", finds=(NEVER_ENDS,)),
    _check("repairs-too-soon", "LOSSES=1 TAKEOVERS=1 REPAIRS_TOO_SOON", FAST, finds=(NEVER_ENDS,)),
    _check("moving-forgotten", "CHANGES=1 TAKEOVERS=1 MOVING_FORGOTTEN", finds=("needless_interrupt",)),
    _check("leave-unsaid", "CHANGES=1 DISCONNECTS=1 LEAVE_UNSAID", finds=(NEVER_ENDS,)),
    _check("finish-eager", "RANKS=3 FINISH CUTS=1 EAGER EAGER_USED", finds=("contributors_differ",)),
    _check("finish-parts-kept", "PARTS=2 FINISH CUTS=1 PARTS_KEPT", finds=("contributors_mixed",)),
    _check("finish-dead-counted", "FINISH CUTS=1 LOSSES=2 IN_PLACE PRESERVE DEAD_COUNTED", finds=("wrong_result",)),
    _check("finish-decides-early", "RANKS=3 FINISH CUTS=1 DECIDES_EARLY", finds=(NEVER_ENDS, "wrong_round")),
    _check("finish-stale-stores", "FINISH CUTS=1 STALE_STORES", finds=("wrong_contributors",)),
    _check("finish-uniform", "FINISH CUTS=1 UNIFORM", finds=("left_out_succeeds",)),
    _check("finish-nodes-say-node", "FINISH CUTS=1 LOSSES=1 UNIFORM NODES_SAY", finds=("left_out_succeeds",)),
]

REACHED = [
    _check("closed", "LOSSES=1", goal="closed"),
    _check("repeated", "LOSSES=1", goal="repeated"),
    _check("again", "EAGER LOSSES=1", goal="again"),
    _check("spoiled", "LOSSES=1 IN_PLACE", goal="spoiled"),
    _check("later", "LOSSES=1 FAILURES=1", goal="later"),
    _check("second", "LOSSES=2", goal="second"),
    _check("moving", "LOSSES=1 CHANGES=1", goal="moving"),
    _check("over", "LOSSES=1 CRASHES=1", goal="over"),
    _check("alone", "COORDINATOR_LOSSES=1", goal="alone"),
    _check("late-write", "LOSSES=1", goal="late_write"),
    _check("taken-over", "LOSSES=1 TAKEOVERS=1", goal="taken_over"),
    _check("follows", "CHANGES=1 TAKEOVERS=1", goal="follows"),
    _check("mended", "LOSSES=1 TAKEOVERS=1", goal="mended"),
    _check("knew", "LOSSES=1 CHANGES=1 TAKEOVERS=1", goal="knew"),
    _check("off", "CHANGES=1 TAKEOVERS=1", goal="off"),
    _check("leaves", "CHANGES=1 TAKEOVERS=1", goal="leaves"),
    _check("without", "FINISH CUTS=1", goal="without"),
    _check("with", "RANKS=3 FINISH CUTS=1", goal="with"),
    _check("both", "RANKS=3 FINISH CUTS=2 ROUNDS=1", goal="both"),
    _check("quorum", "FINISH CUTS=1 QUORUM=2", goal="quorum"),
    _check("left-ok", "FINISH CUTS=1", goal="left_ok"),
    _check("late-ok", "FINISH CUTS=1", goal="late_ok"),
    _check("needed", "FINISH CUTS=1 NEEDED=1", goal="needed"),
]
