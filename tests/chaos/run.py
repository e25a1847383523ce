#!/usr/bin/env python3
"""Chaos: a cluster on this host whose job sums and checks every element while faults happen, from a seed."""

import argparse
import contextlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tiers
from calm import Busy, Watch
from faults import Injector
from finish import FinishJob
from job import WORKLOADS, Job, Record
from report import Findings, Stretch, fault_stalls, line, summary, text
from schedule import KINDS, OF_NETWORK, SURVIVES, TARGETS, plan, possible
from torch_jobs import Python, TorchJob, TrainingJob
from world import World
from endings import ended_by_signals
from etcd_coordinator_test import missing
from network import available
from processes import Failed, end_all, program

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("control/tallyd", "control/tallyctl", "tests/fault/fault-rank")
TREES = ("stars", "two-level")
LOADS = ("c", "torch", "training")
SKIPPED = 77
TICK_S = 0.005
RETRY_S = 0.2  # a job that could not form is started again


class Run:
    """One cluster, from its start to its end."""

    def __init__(self, options):
        self.options = options
        self.record, self.findings = Record(), Findings()
        self.injected = []
        self.reported = 0
        self.forms_since = 0.0  # since when attempts to form a job fail; 0: they do not

    def run(self) -> dict:
        with Busy(self.options.busy), World(self.options) as self.world:
            self.injector = Injector(self.world, lambda: self.job, self.options)
            self.job = self._kind_of_job()(self.world, self.record, self.options, self.injector.paused_ranks)
            try:
                self._until_first_chunk()
                quiet = self._stretch(lambda: self._pass(self.options.quiet))
                faulty = self._stretch(self._stay_calm if self.options.calm else self._inject_all)
                self._judge_stalls(faulty)
                self._end()
            finally:
                if self.options.logs:
                    Path(self.options.logs).write_text(self.world.logs(self.job.ranks))
                elif self.findings.all or self.record.wrong:
                    print(self.world.logs(self.job.ranks), file=sys.stderr, flush=True)
        return summary(self.options, self.injected, self.record, self.findings, quiet, faulty)

    def _kind_of_job(self) -> type:
        if self.options.load == "c":
            return FinishJob if self.options.on_rank_loss else Job
        return TorchJob if self.options.load == "torch" else TrainingJob

    # -- time passes ---------------------------------------------------------------------------------

    def _stretch(self, passes) -> Stretch:
        stretch = Stretch(time.monotonic(), operations=-self.record.operations)
        passes()
        stretch.end = time.monotonic()
        stretch.operations += self.record.operations
        return stretch

    def _pass(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._tick()

    def _until_first_chunk(self) -> None:
        until = time.monotonic() + self.options.limit
        while not self.job.complete:
            if time.monotonic() > until:
                raise Failed(f"the first job has ended no operation within {self.options.limit} s: {self.job.failures}")
            self._tick()

    def _stay_calm(self) -> None:
        watch = Watch(self.world, lambda what: self._found(self.findings.others, what))
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until:
            self._tick()
            watch.look()
        if self.job.repairs:
            self._found(self.findings.others, f"the job was repaired {self.job.repairs} times")

    def _inject_all(self) -> None:
        begin = time.monotonic()
        events = sorted([event for fault in self.options.faults for event in (
            (fault.at, fault.number, self._begin), (fault.at + fault.hold, fault.number, self._undo))], key=lambda e: e[:2])
        for at, number, happens in events:
            self._pass(begin + at - time.monotonic())
            happens(self.options.faults[number])
        self._pass(begin + len(self.options.faults) * self.options.every - time.monotonic())
        self._report()

    def _tick(self) -> None:
        self.job.poll()
        for name in self.world.crashed(self.injector.killed_nodes()):
            self._found(self.findings.others, f"node {name} ended with {self.world.nodes[name].poll()}")
            self.world.kill_node(name)
            self.world.begin_node(name)
        if self.job.over:
            self._job_is_over()
        elif self.job.hangs:
            self._found(self.findings.hangs, f"no operation has ended for {self.options.limit:g} s")
            self._renew_job()
        elif self.injector.renew:
            self.injector.renew = False
            self._renew_job()
        time.sleep(TICK_S)

    # -- faults --------------------------------------------------------------------------------------

    def _begin(self, fault) -> None:
        self._report()
        self.injected.append(self.injector.begin(fault))

    def _undo(self, fault) -> None:
        self.injector.end(fault)

    def _report(self) -> None:
        """A line for each fault that another one has followed, with the stall until now."""
        if self.reported < len(self.injected):
            now = time.monotonic()
            lasts = now - self.job.last_progress > self.options.slow_ms / 1000
            stalls = fault_stalls(self.injected, self.record, also=((self.job.last_progress, now),) if lasts else ())
            for injected, stall in list(zip(self.injected, stalls))[self.reported:]:
                print(line(injected, stall, lasts), flush=True)
            self.reported = len(self.injected)

    def _judge_stalls(self, faulty: Stretch) -> None:
        for injected, stall in zip(self.injected, fault_stalls(self.injected, self.record, faulty.end)):
            if self.options.max_stall and stall > self.options.max_stall and injected.promise == SURVIVES:
                self.findings.others.append(f"fault {injected.fault.number} ({injected.kind}) stalled the job for {stall:.2f} s, "
                                            f"more than {self.options.max_stall:g} s")

    def _found(self, findings: list, what: str) -> None:
        findings.append(f"{self._when()}: {what}")
        print(f"      FOUND {findings[-1]}", flush=True)

    def _when(self) -> str:
        last = [one for one in self.injected if not one.skipped][-1:]
        return f"after fault {last[0].fault.number} ({last[0].fault.kind} {last[0].victim})" if last else "before all faults"

    def _blamed(self) -> bool:
        """Whether a fault that may end the job is active, or was the last one."""
        last = [one for one in self.injected if not one.skipped][-1:]
        return any(one.promise != SURVIVES for one in [*last, *self.injector.active])

    # -- jobs ----------------------------------------------------------------------------------------

    def _job_is_over(self) -> None:
        forming = self.job.complete == 0
        if not forming:
            self.forms_since = 0.0
            print(f"      the job is over {self._when()}: {self.job.failures[0]}", flush=True)
            if not self._blamed():
                for failure in self.job.failures:
                    self._found(self.findings.failed_operations, failure)
        elif not self.forms_since:
            self.forms_since = time.monotonic()
        elif time.monotonic() > self.forms_since + self.options.limit and not self.injector.active:
            self._found(self.findings.hangs, f"no job forms for {self.options.limit:g} s: {self.job.failures[0]}")
            self.forms_since = 0.0
        self._renew_job(RETRY_S if forming else 0)

    def _renew_job(self, after_s: float = 0) -> None:
        self.job.abandon()
        time.sleep(after_s)
        self.job.start()

    # -- the end -------------------------------------------------------------------------------------

    def _end(self) -> None:
        """All faults are undone. The job ends well, and every node forgets it and ends in good order."""
        self.injector.end_all()
        try:
            self.world.wait_until_whole()
            self._until_first_chunk()
            self.job.finish()
            if self.job.failures:
                for failure in self.job.failures:
                    self._found(self.findings.failed_operations, f"at the end: {failure}")
            elif self.job.hangs:
                self._found(self.findings.hangs, "at the end: not all operations end")
            else:
                self.world.nothing_left()
            for name, node in self.world.nodes.items():
                node.signal(signal.SIGTERM)
                if status := node.wait(self.options.limit):
                    self._found(self.findings.others, f"node {name} ended with {status} after SIGTERM")
        except (AssertionError, BrokenPipeError) as wrong:
            self._found(self.findings.others, f"at the end: {wrong}")


# -- the command line --------------------------------------------------------------------------------


def words(known) -> Callable:
    def parse(given: str) -> list:
        chosen = given.split(",")
        for word in chosen:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return chosen
    return parse


def at_least(least: float, kind: type = float) -> Callable:
    def parse(given: str):
        if (value := kind(given)) < least:
            raise argparse.ArgumentTypeError(f"{given} is less than {least}")
        return value
    return parse


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, epilog="docs/testing.md has the faults and what the product promises.")
    add = made.add_argument
    add("--seed", type=int, default=0, help="of the schedule (default: a new one, which the run prints)")
    add("--every", type=at_least(0.1), default=5.0, metavar="SECONDS", help="between faults (default: 5)")
    add("--for", type=at_least(0.1), default=30.0, dest="seconds", metavar="SECONDS", help="inject faults for so long (default: 30)")
    add("--calm", action="store_true", help="inject no faults for --for seconds: a verdict, a repair or a missing node is a "
        "finding")
    add("--busy", type=at_least(0, int), default=0, metavar="PROCESSES", help="so many processes compute all the time "
        "(default: 0)")
    add("--count", type=at_least(1, int), help="inject so many faults, instead of --for")
    add("--hold", type=at_least(0.01), default=2.0, metavar="SECONDS",
        help="a fault is undone after a quarter of this time, up to all of it (default: 2)")
    add("--faults", type=words(KINDS), default=["kill"], help=f"some of {','.join(KINDS)} (default: kill)")
    add("--targets", type=words(TARGETS), default=["nodes"], help=f"some of {','.join(TARGETS)} (default: nodes)")
    add("--nodes", type=at_least(1, int), default=3, help="nodes that sum (default: 3)")
    add("--trees", choices=TREES, default="stars", help="stars: the nodes' own plan; two-level: a root and two nodes below "
        "it in each tree, for which 4 nodes are needed (default: stars)")
    add("--ranks", type=at_least(1, int), default=3, help="ranks of the job (default: 3)")
    add("--elements", type=at_least(1, int), default=1 << 18, help="of the larger operations (default: 262144)")
    add("--mix", type=words(WORKLOADS), help=f"some of {','.join(WORKLOADS)} (default: out,preserve,small; "
        "with --on-rank-loss: out,preserve,overwrite)")
    add("--load", choices=LOADS, default="c", help="what the ranks do: operations of the C interface, torch's all_reduce (in "
        "place), or a training with DistributedDataParallel and --on-rank-loss finish (default: c)")
    add("--pause", type=at_least(0), default=0.05, metavar="SECONDS", help="of a training: the time without a processor that "
        "each step has, as if an accelerator computed (default: 0.05)")
    add("--on-rank-loss", choices=["finish"], help="the job goes on without ranks that are lost; they start again and return")
    add("--deadline", type=at_least(0.1), default=10.0, metavar="SECONDS", help="of operations, with --on-rank-loss; half of "
        "the ranks that are stopped or cut off stay so much longer, and are left out (default: 10)")
    add("--etcd", action="store_true", help="nodes elect their coordinator in etcd; else one more node coordinates")
    add("--network", action="store_true", help="each process has a machine of a network (namespaces; needs root); else "
        "ranks and nodes share memory")
    add("--quiet", type=at_least(0.5), default=5.0, metavar="SECONDS", help="without faults before the first one (default: 5)")
    add("--slow-ms", type=at_least(1, int), default=100, help="an operation that lasts so long has stalled (default: 100)")
    add("--limit", type=at_least(1), default=60.0, metavar="SECONDS", help="a job in which nothing ends for so long hangs "
        "(default: 60)")
    add("--max-stall", type=at_least(0.001), default=0.0, metavar="SECONDS", help="a longer stall is a finding, where the job "
        "must survive the fault (default: no stall is)")
    add("--settle", type=at_least(0), default=5.0, metavar="SECONDS", help="after a fault, before its time counts as between "
        "faults (default: 5)")
    add("--least-throughput", type=at_least(0), default=0.0, metavar="SHARE", help="less than this share of the throughput "
        "before and between the faults is a finding (default: none is)")
    add("--json", metavar="FILE", help="write the report there, too")
    add("--list", action="store_true", help="print the schedule and inject nothing")
    add("--log-level", default="info", help="of the nodes (default: info)")
    add("--logs", metavar="FILE", help="write what nodes and ranks said there; else it is shown after a finding")
    add("--build", type=Path, default=ROOT / "build", metavar="FOLDER", help="with the programs (default: build/)")
    add("--tier", action="store_true", help="make the runs of $TALLY_TEST_TIER (tiers.py) instead of one run")
    return made


def parse(arguments: list) -> argparse.Namespace:
    made = parser()
    options = made.parse_args(arguments)
    options.seed = options.seed or int(time.time())
    options.count = options.count or max(1, int(options.seconds / options.every))
    if options.load == "training" and not options.on_rank_loss:
        made.error("--load training needs --on-rank-loss finish")
    if options.load == "torch" and options.on_rank_loss:
        made.error("--load torch is for jobs without --on-rank-loss")
    if options.calm and options.load != "c":
        made.error("--calm is for --load c, because programs with torch do not count repairs")
    if options.load != "c" and options.mix:
        made.error(f"--mix is for --load c, not {options.load}")
    in_place = ["preserve", "small"]
    options.mix = options.mix or (in_place if options.load == "torch" else
                                  ["out", "preserve", "overwrite" if options.on_rank_loss else "small"])
    if options.on_rank_loss and "small" in options.mix:
        made.error("with --on-rank-loss all operations have one size: --elements 1024 makes them small")
    with_cable = [kind for kind in options.faults if kind in OF_NETWORK]
    if with_cable and not options.network:
        made.error(f"{with_cable[0]} needs --network")
    if options.trees == "two-level" and options.nodes < 4:
        made.error("--trees two-level needs --nodes 4: three are in each tree, and one must be left to stand in")
    if options.trees == "two-level" and "coordinator" in options.targets and not options.etcd:
        made.error("--trees two-level with the target coordinator needs --etcd, which keeps the plan")
    if "etcd" in options.targets and not options.etcd:
        made.error("the target etcd needs --etcd")
    pairs = possible(options.faults, options.targets, options.network, options.etcd)
    if not pairs:
        made.error("none of these faults can happen to these targets: cables of etcd cannot be cut alone")
    sizes = {"nodes": options.nodes, "coordinator": 1, "ranks": options.ranks, "etcd": 1}
    options.python = Python(options.build)
    options.command = shlex.join(["tests/chaos/run.py", *arguments, *([] if "--seed" in arguments else
                                                                     ["--seed", str(options.seed)])])
    longer = options.deadline if options.on_rank_loss else 0.0
    options.faults = [] if options.calm else plan(options.seed, options.count, options.every, options.hold, pairs, sizes, longer)
    return options


def lacks(options) -> str:
    """What this machine lacks for the run; empty: nothing."""
    return (options.etcd and missing()) or (options.network and available()) or (
        options.load != "c" and options.python.missing()) or ""


def one(options) -> int:
    """Makes one run. Returns the exit status."""
    if options.list:
        print("\n".join(map(str, options.faults)))
        return 0
    if reason := lacks(options):
        print(f"skipped: {reason}", flush=True)
        return SKIPPED
    try:
        options.programs = [program(str(options.build / path)) for path in PROGRAMS]
    except argparse.ArgumentTypeError as error:
        sys.exit(f"run.py: {error}")
    print(f"replay: {options.command}", flush=True)
    with ended_by_signals(), contextlib.ExitStack() as undo:
        undo.callback(end_all)
        found = Run(options).run()
    print(text(found), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    return 1 if found["findings"] or found["wrong_elements"] or not (found["injected"] or options.calm) else 0


def main() -> int:
    options = parse(sys.argv[1:])
    if not options.tier:
        return one(options)
    statuses = []
    for arguments in tiers.RUNS[os.environ.get("TALLY_TEST_TIER", "default")]:
        statuses.append(one(parse([*arguments.split(), "--build", str(options.build)])))
    failed = [status for status in statuses if status not in (0, SKIPPED)]
    return failed[0] if failed else SKIPPED if all(status == SKIPPED for status in statuses) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
