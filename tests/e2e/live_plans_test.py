#!/usr/bin/env python3
"""Plans that change while a job runs: nodes that are drained, nodes that join. No operation fails, and every sum is right.

usage: live_plans_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import os
import signal
import time

from nodes import TIMEOUT, Cluster, Process, run_tests

# Small ones that go whole to a tree, and large ones that are divided over all.
TENSORS = [1, 700, 4096, 60000, 65536, 100000, 300000, 1, 33, 500000, 20000, 250000]


class LivePlans(Cluster):
    def job(self, seconds: int = 300, coordinator: str = "a", check: tuple = ("--check-each",)) -> Process:
        """Rounds of many tags, in another order at each rank, with gradients of their own that are all verified; until
        it is told to end, or for so many seconds, of which sanitizers need more. `check`: how."""
        seconds *= 4 if os.environ.get("TALLY_SANITIZER") else 1
        run = self.rounds("--duration", str(seconds), *check, coordinator=coordinator)
        run.skip_to("^# allreduce")
        self.until(lambda: self.moves("a"), "bytes move")
        return run

    def rounds(self, *more: str, coordinator: str = "a") -> Process:
        model = self.place / "model.json"
        model.write_text(json.dumps({"model": "toy", "parameters": sum(TENSORS),
                                     "tensors": [[f"t{i}", [n]] for i, n in enumerate(TENSORS)]}))
        self.out = self.place / "rows.json"
        return self.perf(self.address(coordinator), "--model", str(model), "--mode", "tensors", "--shuffle", "7",
                         "--timeout", "100", "--json", str(self.out), *more)

    def until(self, what, title: str):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if found := what():
                return found
            time.sleep(0.1)
        return self.fail(f"not so within {TIMEOUT} s: {title}")

    def moves(self, name: str) -> bool:
        before = self.pulled()[name]
        time.sleep(0.3)
        return self.pulled()[name] > before

    def ends_well(self, run: Process) -> None:
        text = run.finish(timeout=3 * TIMEOUT)
        document = json.loads(self.out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0, text)

    def bits(self, run=None) -> str:
        """Of the last round, of a run that verifies nothing: its gradients are the same all the time."""
        run = run or self.rounds("--iters", "2")
        text = run.finish(timeout=3 * TIMEOUT)
        return json.loads(self.out.read_text())["rows"][0]["hash"]

    def jobs(self, node: str) -> list:
        return json.loads(self.ctl("--json", "jobs", node=node))

    def test_a_node_is_drained_and_nothing_fails(self):
        self.cluster(("b",), ("c",))
        run = self.job(seconds=15)
        self.until(lambda: self.moves("c"), "c carries some of it")
        before = self.jobs("a")[0]["epoch"]
        self.assertIn("c serves nothing any more: it may be stopped", self.ctl("drain", "c", "--wait", "50"))
        self.assertEqual(json.loads(self.ctl("--json", "status", node="c"))["sessions"], 0)
        self.until(lambda: not self.jobs("c"), "it knows of no job")
        self.assertGreater(self.jobs("a")[0]["epoch"], before)
        self.assertIn("helper, draining", self.ctl("nodes"))
        self.nodes.pop("c").stop()
        self.until(lambda: self.moves("b"), "b carries some of it")
        self.ends_well(run)

    def test_a_node_that_joins_has_a_share(self):
        self.cluster(("b",))
        run = self.job(seconds=20)
        self.start("c", "--cluster", self.address("a"), "--cluster-name", "c", "--cluster-host", "here")
        self.until(lambda: self.moves("c"), "the node that has joined moves bytes")
        self.ctl("drain", "c", "--wait", "50")
        self.assertFalse(self.moves("c"))
        self.ctl("drain", "c", "--undo")
        self.until(lambda: self.moves("c"), "the node that is taken back moves bytes")
        self.ends_well(run)

    def test_a_rank_that_sleeps_delays_it_alone(self):
        self.cluster(("b",))
        run = self.job(seconds=15)
        sleeper = run.children()[1]
        os.kill(sleeper, signal.SIGSTOP)
        try:
            text = self.ctl("drain", "b", "--wait", "2", status=1)
            self.assertIn("waits for rank 1 to make ready for its new plan", text)
            self.assertTrue(self.jobs("b"))
        finally:
            os.kill(sleeper, signal.SIGCONT)
        self.assertIn("may be stopped", self.ctl("drain", "b", "--wait", "50"))
        self.ends_well(run)

    def test_a_rank_that_is_killed_meanwhile_ends_the_job_as_always(self):
        self.cluster(("b",))
        run = self.job()
        victim = run.children()[2]
        os.kill(victim, signal.SIGSTOP)
        self.ctl("drain", "b", "--wait", "2", status=1)
        os.kill(victim, signal.SIGKILL)
        text = run.finish(None, timeout=2 * TIMEOUT)
        self.assertNotEqual(run.poll(), 0)
        self.assertIn("rank 2", text)
        self.assertIn("may be stopped", self.ctl("drain", "b", "--wait", "50"))
        before = self.pulled()["b"]
        self.assertTrue(self.rows(self.address("a")), "the job forms again, without that node")
        self.assertEqual(self.pulled()["b"], before)

    def test_a_coordinator_that_dies_leaves_the_job_as_it_is(self):
        self.start("z", "--cluster", self.address("z"), "--cluster-name", "z", "--cluster-host", "here")
        self.start("a", "--cluster", self.address("z"), "--cluster-name", "a", "--cluster-host", "here")
        self.start("b", "--cluster", self.address("z"), "--cluster-name", "b", "--cluster-host", "here")
        self.assertIn("may be stopped", self.ctl("drain", "z", node="z"), "it coordinates, and serves nothing")
        run = self.job(seconds=15, coordinator="z")
        self.nodes.pop("z").kill()
        self.until(lambda: self.moves("b"), "b carries some of it")
        self.ends_well(run)

    def test_a_plan_is_set_while_a_job_runs(self):
        self.cluster(("b",))
        run = self.job(seconds=25)
        self.assertIn("run, and those that form", self.ctl("plan", "set", self.plan({"a": 65536}), "--now"))
        self.until(lambda: not self.moves("b"), "all goes over the other node")
        self.until(lambda: self.moves("a"), "a carries some of it")
        self.assertEqual(self.jobs("a")[-1]["plan_epoch"], 41)
        self.assertIn("may be stopped", self.ctl("drain", "a", "--wait", "50"))
        self.until(lambda: self.moves("b"), "b carries some of it")
        self.assertFalse(self.moves("a"))
        self.assertEqual([self.jobs("b")[-1][key] for key in ("plan_epoch", "stands_in_for")], [41, ["a"]])
        self.assertIn("b stands in for a there", self.ctl("plan", "show", "--job", self.jobs("b")[-1]["name"]))
        self.assertIn("helper, stands in for a", self.ctl("nodes"))
        self.assertIn("this node stands in for a in job", self.ctl("jobs", node="b"))
        self.ctl("drain", "a", "--undo")
        self.until(lambda: self.moves("a") and not self.moves("b"), "it has its trees back")
        self.ctl("plan", "set", "--closed-form", "--now")
        self.until(lambda: self.moves("b"), "both have a share again")
        self.ends_well(run)

    # Two levels: sums of floats depend on who is below whom, and in which order.
    RACKS = [{"w0": "a", "w1": "b", "w2": "b", "a": "c", "b": "c", "c": ""},
             {"w0": "b", "w1": "b", "w2": "a", "a": "b", "b": ""}]

    def racks(self) -> str:
        return self.tree_plan(["w0", "w1", "w2"], ["a", "b", "c"], self.RACKS)

    def test_a_substitute_sums_to_the_same_bits(self):
        self.cluster(("b",), ("c",), ("d",))
        self.ctl("plan", "set", self.racks())
        wanted = self.bits()
        for name, place in (("b", "between"), ("c", "above")):
            run = self.job(seconds=12, check=())
            self.assertFalse(self.moves("d"))
            self.assertIn("may be stopped", self.ctl("drain", name, "--wait", "50"), place)
            self.until(lambda: self.moves("d"), "d carries some of it")
            self.assertEqual(self.jobs("d")[-1]["stands_in_for"], [name])
            self.assertEqual(self.bits(run), wanted, place)
            # A job that forms has it, too.
            self.assertEqual(self.bits(), wanted)
            run = self.job(seconds=12, check=())
            self.ctl("drain", name, "--undo")
            self.until(lambda name=name: self.moves(name) and not self.moves("d"), "it has its trees back")
            self.assertEqual(self.bits(run), wanted)
        self.ctl("plan", "set", "--closed-form")
        self.assertNotEqual(self.bits(), wanted)

    # Four levels, the most that there are; a partial sum passes a node that adds nothing of its own but "w1".
    CHAIN = [{"w0": "a", "w1": "b", "w2": "a", "a": "b", "b": "c", "c": "d", "d": ""}]

    def test_stars_become_trees_and_stars_again(self):
        self.cluster(*self.mixed("b", "c", "d"))
        run = self.job(seconds=20, check=("--check-each", "--type", "i32"))
        for trees, root, levels in ((self.RACKS, "b", 2), (self.CHAIN, "d", 4)):
            self.ctl("plan", "set", self.tree_plan(["w0", "w1", "w2"], ["a", "b", "c", "d"], trees), "--now")
            self.until(lambda root=root, levels=levels: self.jobs(root)[-1]["height"] == levels, f"{levels} levels")
            self.until(lambda: len(self.jobs("b")) == 1, "the stars are gone")
            self.until(lambda: self.moves("a"), "a carries some of it")
            self.ctl("plan", "set", "--closed-form", "--now")
            self.until(lambda: self.jobs("b")[-1]["height"] == 1, "stars")
            self.until(lambda: len(self.jobs("b")) == 1, "the trees are gone")
            self.until(lambda: self.moves("a"), "a carries some of it")
        self.ends_well(run)

    def test_a_node_without_substitute_keeps_its_trees(self):
        self.cluster(("b",), ("c",))
        self.ctl("plan", "set", self.racks())
        run = self.job(seconds=20, check=("--check-each", "--type", "i32"))
        text = self.ctl("drain", "b", "--wait", "50", status=1)
        self.assertIn('no node can stand in for it in a tree of the plan; "a" sums in it already; "c" sums in it already', text)
        self.assertIn("it keeps the plan that it has", text)
        # Nobody was needed but one more.
        self.start("d", "--cluster", self.address("a"), "--cluster-name", "d", "--cluster-host", "here")
        self.until(lambda: self.jobs("d") and not self.jobs("b"), "the node that has joined stands in for it")
        self.nodes.pop("b").kill()
        self.until(lambda: self.moves("d"), "d carries some of it")
        self.ends_well(run)

    def test_the_last_node_cannot_be_drained(self):
        self.cluster(("b",))
        self.assertIn("may be stopped", self.ctl("drain", "b"))
        self.assertIn('"a" is the last node that can have trees: start another', self.ctl("drain", "a", status=2))
        self.assertIn('there is no member "nobody"', self.ctl("drain", "nobody", status=2))
        self.assertTrue(self.rows(self.address("a")))
        self.assertEqual(self.served(), ["a"])
        self.ctl("drain", "b", "--undo")
        self.assertTrue(self.rows(self.address("a")))
        self.assertEqual(self.served(), ["a", "b"])


if __name__ == "__main__":
    run_tests(("LivePlans.test_a_plan_is_set_while_a_job_runs",
               "LivePlans.test_a_rank_that_is_killed_meanwhile_ends_the_job_as_always"))
