#!/usr/bin/env python3
"""Checks the model of repair with Spin, or prints traces of it. README.md explains both.

usage: run.py [--fast | --quick | --soak] [--only NAME]...
       run.py --trace NAME [--seed N] [--count N]

Without a tier it takes TALLY_TEST_TIER's (fast; default is --quick; soak).
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pan
from configurations import FAST, GOALS, HOLD, MUTANTS, QUICK, REACHED, SOAK, Check

SKIPPED = 77
TIERS = {"fast": FAST, "default": QUICK, "soak": SOAK}
SIZES = {"RANKS": "2", "NODES": "2", "PARTS": "1", "ROUNDS": "2"}  # and their defaults (options.pml)
SIMULATIONS = 5  # of each configuration whose traces a run checks


def goal_options(check: Check) -> tuple[str, ...]:
    return (*check.options, f"GOAL={GOALS[check.goal]}") if check.goal else check.options


def judge(check: Check) -> tuple[int, str, bool]:
    """Returns the number of states, what was found, and whether that is right."""
    small = bool(check.finds or check.goal or check.tier == FAST)
    outcome = pan.verify(goal_options(check), small=small)
    found = outcome.violation
    if check.goal:
        goal = f"{GOALS[check.goal]}=={GOALS[check.goal]}"
        return outcome.states, f"reached {check.goal}" if goal in found else f"not reached: {found}", goal in found
    if check.finds:
        return outcome.states, found or "not found", any(name in found for name in check.finds)
    if found or not outcome.complete:
        return outcome.states, found or "the search is not complete", False
    if check.ends:
        cycle = pan.verify(check.options, cycles=True, small=True)
        if cycle.violation or not cycle.complete:
            return outcome.states, cycle.violation or "the search for endless runs is not complete", False
    return outcome.states, "holds, and every run ends" if check.ends else "holds", True


def report(check: Check) -> bool:
    begin = time.monotonic()
    try:
        states, found, right = judge(check)
    except pan.ToolFailed as error:
        states, found, right = 0, str(error), False
    kind = "goal" if check.goal else "mutant" if check.finds else "model"
    took = time.monotonic() - begin
    mark = "" if right else "   WRONG"
    print(f"{kind:6} {check.name:22} {states:>10} states {took:6.1f} s  {found}{mark}", flush=True)
    if not right and check.finds:
        print(f"       expected: {' or '.join(check.finds)}", flush=True)
    return right


def traces(check: Check, seeds: range, jobs: int = 1) -> Iterator[list[str]]:
    """A run for each seed, with a first line that says which."""
    given = check.macros()
    sizes = [f"{macro.lower()}={given.get(macro, default)}" for macro, default in SIZES.items()]
    flags = [f"{name.lower()}={given.get(name, '0')}" for name in ("IN_PLACE", "PRESERVE", "EAGER")]
    for seed, events in zip(seeds, pan.simulate(check.options, seeds, jobs)):
        yield [" ".join(["trace", f"configuration={check.name}", f"seed={seed}", *sizes, *flags]), *events]


def whole(lines: list[str], ranks: int, rounds: int) -> bool:
    """Whether the trace has the end of every operation at every rank: `end` lines, or the end of the session or rank."""
    ends = [line.split()[1] for line in lines if line.startswith("end ")]
    over = {line.split()[1] for line in lines if line.startswith(("end_session ", "vanish "))}
    return all(f"rank={rank}" in over or ends.count(f"rank={rank}") == rounds for rank in range(ranks))


def check_traces(checks: list[Check]) -> bool:
    right = True
    for check in checks:
        given = check.macros()
        for seed, lines in enumerate(traces(check, range(1, SIMULATIONS + 1)), 1):
            sizes = (int(given.get(size, SIZES[size])) for size in ("RANKS", "ROUNDS"))
            if not whole(lines, *sizes):
                print(f"trace  {check.name}: seed {seed}: an operation does not end   WRONG", flush=True)
                right = False
    return right


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--fast", action="store_const", const=FAST, dest="tier", help="two losses of each kind, and the main mutants")
    tier.add_argument("--quick", action="store_const", const=QUICK, dest="tier", help="all kinds of faults with 2 ranks")
    tier.add_argument("--soak", action="store_const", const=SOAK, dest="tier", help="3 ranks too, and more faults at a time")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only checks of this name")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help=f"checks at a time; each may take {pan.MEMORY_LIMIT_MB} MB in tier soak")
    parser.add_argument("--trace", metavar="NAME", help="print runs of this configuration, and check nothing")
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")
    parser.add_argument("--count", type=int, default=1, help="how many runs (1)")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    if not shutil.which("spin"):
        print("spin is not installed (tools/setup --dev)")
        return SKIPPED
    everything = HOLD + MUTANTS + REACHED
    known = {check.name for check in everything}
    for name in [*asked.only, *([asked.trace] if asked.trace else [])]:
        if name not in known:
            sys.exit(f"run.py: no check is named {name}; there are {', '.join(sorted(known))}")
    if asked.trace:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader may have seen enough
        check = next(check for check in everything if check.name == asked.trace)
        for lines in traces(check, range(asked.seed, asked.seed + asked.count)):
            print("\n".join(lines))
        return 0
    tier = asked.tier if asked.tier is not None else TIERS[os.environ.get("TALLY_TEST_TIER", "default")]
    chosen = [check for check in everything if check.name in asked.only or (not asked.only and check.tier <= tier)]
    # The long ones first, so that no core is idle at the end.
    chosen.sort(key=lambda check: ("CHANGES=1" not in check.options, "PARTS=2" not in check.options))
    with ThreadPoolExecutor(max(1, asked.jobs)) as pool:
        results = list(pool.map(report, chosen))
    right = all(results) and check_traces([check for check in chosen if check.ends])
    print(f"{sum(results)} of {len(results)} checks are right")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
