#!/usr/bin/env python3
"""Nodes in racks: the coordinator plans trees by itself, and jobs change to them. Every sum is right.

usage: racks_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import time

from nodes import TIMEOUT, Cluster, Process, run_tests

RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
SPEED = 1_000_000_000


def flags(name: str, *more: str) -> tuple:
    """A node of a machine with workers."""
    return "--cluster-role", "worker", "--cluster-speed", "1GB", *more


def in_rack(name: str) -> tuple:
    """The same, in its rack, whose link has a quarter of the speed of the rack's NICs."""
    return flags(name, "--cluster-rack", RACKS[name], "--cluster-rack-speed", "500MB")


class Racks(Cluster):
    def start_all(self, flags_of) -> None:
        self.cluster(*[(name, *flags_of(name)) for name in "bcd"], coordinator=flags_of("a"))

    def shown(self, *more: str) -> dict:
        return json.loads(self.ctl("--json", "plan", "show", *more))

    def until_source(self, source: str, *more: str) -> dict:
        """Waits until the plan in force, or that of a job, comes from there."""
        until = time.monotonic() + TIMEOUT
        while (shown := self.shown(*more))["source"] != source:
            self.assertLess(time.monotonic(), until, shown)
            time.sleep(0.05)
        return shown

    def running(self) -> str:
        """The source of the plan of the job that runs."""
        jobs = json.loads(self.ctl("--json", "jobs", "--cluster"))
        return jobs[0]["source"] if jobs and jobs[0]["stage"] == "running" else ""

    def until_levels(self, levels: int, run: Process) -> None:
        """Waits until the running job has trees of so many levels."""
        until = time.monotonic() + TIMEOUT
        while True:
            job = json.loads(self.ctl("--json", "jobs", "--cluster"))[0]
            trees = self.shown("--job", job["name"])["domains"][0]["classes"][-1]["trees"]
            if job["stage"] == "running" and max(tree["levels"] for tree in trees) == levels:
                return
            self.assertIsNone(run.poll(), run.output())
            self.assertLess(time.monotonic(), until, trees)
            time.sleep(0.1)

    def until_running_by(self, source: str, run: Process) -> None:
        until = time.monotonic() + TIMEOUT
        while self.running() != source:
            self.assertIsNone(run.poll(), run.output())
            self.assertLess(time.monotonic(), until, self.ctl("jobs", "--cluster"))
            time.sleep(0.1)

    def test_a_job_has_the_trees_that_the_coordinator_has_planned(self):
        self.start_all(in_rack)
        shown = self.until_source("racks")
        classes = shown["domains"][0]["classes"]
        self.assertGreater(len(classes), 1, "size classes")
        self.assertLess(classes[-1]["tau"], classes[0]["tau"])
        for kind in ("allreduce", "reducescatter", "broadcast"):
            out = self.place / "row.json"
            sizes = ["--min-bytes", "4", "--max-bytes", "8M", "--factor", "9", "--iters", "3", "--type", "i32", "--check"]
            text = self.perf(self.address("a"), *sizes, "--json", str(out), ranks=4, kind=kind).finish()
            document = json.loads(out.read_text())
            self.assertEqual(document["wrong"], 0, text)
            self.assertGreater(document["checked"], 0, text)
            self.nothing_left()
        self.assertIn("rack r2", self.ctl("nodes"))

    def moved(self) -> dict:
        """Bytes between nodes, of all nodes together: partial sums up, and results down."""
        totals = [self.stats(name)["totals"] for name in self.nodes]
        return {way: sum(one[f"bytes_{way}"] for one in totals) for way in ("up", "down")}

    def set_plan_for(self, network: dict, *options: str) -> dict:
        """Has `plan make` plan for the network, and gives the plan to the coordinator."""
        source, plan = self.place / "network.json", self.place / "plan.json"
        source.write_text(json.dumps({"fmt": "tally-network/1", **network}))
        made = self.tallyctl("plan", "make", "--network", str(source), *options, "--out", str(plan))
        if "Clp" in made.stderr:
            self.skipTest(made.stderr)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.ctl("plan", "set", str(plan))
        return json.loads(plan.read_text())

    def check_large(self, kind: str) -> None:
        """Operations of a size that is divided over all trees are right."""
        size = ["--min-bytes", "4M", "--max-bytes", "4M", "--iters", "5", "--inflight", "3", "--type", "i32", "--check"]
        out = self.place / "row.json"
        text = self.perf(self.address("a"), *size, "--json", str(out), ranks=4, kind=kind).finish()
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0, text)
        self.nothing_left()

    def test_results_go_another_way_where_links_differ_by_direction(self):
        self.start_all(flags)
        machines = [{"name": name, "role": "worker", "rack": "r", "out": SPEED if name == "a" else 2 * SPEED,
                     "in": 2 * SPEED if name == "a" else SPEED} for name in RACKS]
        plan = self.set_plan_for({"racks": [{"name": "r"}], "machines": machines}, "--any-way")
        trees = plan["domains"][0]["classes"][-1]["trees"]
        self.assertTrue(any("down" in tree for tree in trees), trees)
        for kind in ("allreduce", "reducescatter", "broadcast"):
            self.check_large(kind)

    def test_reduce_scatters_end_and_all_gathers_begin_at_their_owners(self):
        self.start_all(flags)
        racks = [{"name": rack, "speed": SPEED // 4} for rack in ("r1", "r2")]
        machines = [{"name": name, "role": "worker", "nic": SPEED, "rack": rack} for name, rack in RACKS.items()]
        self.set_plan_for({"racks": racks, "machines": machines}, "--objective", "rs-ag")
        before = self.moved()
        for kind, way, other in (("reducescatter", "up", "down"), ("allgather", "down", "up"), ("allreduce", "up", None)):
            self.check_large(kind)
            after = self.moved()
            self.assertGreater(after[way], before[way], "racks have nodes that sum or hand on first")
            if other:
                self.assertEqual(after[other], before[other], f"{kind}: no byte travels {other}")
            before = after

    def test_a_job_of_some_of_the_machines_has_stars(self):
        self.start_all(in_rack)
        self.until_source("racks")
        self.assertTrue(self.rows(self.address("a"), ranks=3))
        run = self.endless(ranks=3)
        self.assertEqual(self.running(), "closed form")
        run.end()
        self.nothing_left()

    def test_a_job_changes_when_members_change(self):
        self.cluster(*[(name, *in_rack(name)) for name in "bc"], coordinator=in_rack("a"))
        self.until_source("racks")
        run = self.perf(self.address("a"), "--min-bytes", "1M", "--max-bytes", "1M", "--duration", "600", "--check-each",
                        ranks=4)
        run.skip_to("^# allreduce")
        self.until_levels(1, run)  # a single machine is in the second rack
        self.start("d", "--cluster", self.address("a"), "--cluster-name", "d", "--cluster-host", "here", *in_rack("d"))
        self.until_levels(2, run)
        self.ctl("drain", "d", "--wait", str(TIMEOUT))
        self.until_running_by("racks", run)  # another node stands in for it
        self.ctl("drain", "d", "--undo")
        self.assertIsNone(run.poll(), run.output())
        run.end()
        self.nothing_left()

    def test_a_file_of_machines_says_the_racks(self):
        self.start_all(flags)
        self.assertEqual(self.shown()["source"], "closed form")
        path = self.place / "machines.json"
        path.write_text(json.dumps({
            "fmt": "tally-machines/1",
            "racks": [{"name": rack, "speed": SPEED // 2} for rack in ("r1", "r2")],
            "machines": [{"name": name, "role": "worker", "in": SPEED, "out": SPEED, "rack": rack}
                         for name, rack in RACKS.items()]}))
        run = self.endless(ranks=4)
        self.ctl("plan", "set", "--closed-form", "--machines", str(path), "--now")
        self.until_source("racks")
        self.until_running_by("racks", run)
        self.ctl("plan", "set", "--closed-form", "--now")
        self.until_running_by("closed form", run)
        run.end()
        self.nothing_left()


if __name__ == "__main__":
    run_tests()
