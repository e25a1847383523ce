#!/usr/bin/env python3
"""Trees deeper than stars between real nodes, by plans that an operator sets.

usage: trees_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import os
import signal
import socket
import time

from nodes import TIMEOUT, Cluster, Process, run_tests

KINDS = ["allreduce", "reduce", "broadcast", "reducescatter", "allgather"]
EXACT = ["--type", "f32,bf16", "--gradients", "integers"]  # sums of up to 8 ranks, whatever the order


class Trees(Cluster):
    def run_row(self, kind: str, *arguments: str, ranks: int) -> str:
        """One row, checked where its bits do not depend on the order; its hash."""
        out = self.place / "row.json"
        run = self.perf(self.address("a"), "--iters", "3", "--warmup", "1", "--json", str(out), *arguments, ranks=ranks,
                        kind=kind)
        text = run.finish()
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        return "".join(row["hash"] for row in document["rows"])

    def sweep(self, ranks: int) -> None:
        sizes = ["--min-bytes", "4", "--max-bytes", "2M", "--factor", "9"]
        for kind in KINDS:
            self.run_row(kind, *sizes, "--type", "i32", "--check", ranks=ranks)
        in_guest = "TALLY_VM" in os.environ  # where everything takes several times as long
        for kind in ("allreduce", "reduce", "reducescatter")[:1 if in_guest else 3]:
            self.run_row(kind, *sizes, *EXACT, "--op", "sum,avg", "--check", ranks=ranks)
        for kind_of in ("f32", "f16", "bf16")[:1 if in_guest else 3]:
            self.run_row("allreduce", *sizes, "--type", kind_of, "--op", "max", "--check", "--stats", ranks=ranks)
        again = [self.run_row("allreduce", *sizes, "--type", "f32,f16,bf16", "--shuffle", str(seed), ranks=ranks)
                 for seed in (1, 2)]
        self.assertEqual(again[0], again[1], "the bits do not depend on who comes first")
        self.nothing_left()

    def endless_error(self, run: Process) -> str:
        text = run.finish(None)
        self.assertNotEqual(run.poll(), 0, text)
        return text

    RACKS = {"w0": "a", "w1": "a", "w2": "b", "w3": "b", "a": "c", "b": "c", "c": ""}

    def racks(self) -> str:
        return self.tree_plan(["w0", "w1", "w2", "w3"], ["a", "b", "c"], [self.RACKS])

    def test_two_levels_below_a_helper(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        self.sweep(4)

    def test_a_job_that_gathers_is_seen(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        self.assertEqual(self.ctl("jobs", "--cluster"), "no jobs that this node coordinates\n")
        Process([self.TALLY_PERF, "allreduce", "--address", self.address("a"), "--job", "bert", "--rank", "2", "--ranks", "4"])
        until = time.monotonic() + TIMEOUT
        while not (jobs := json.loads(self.ctl("--json", "jobs", "--cluster"))):
            self.assertLess(time.monotonic(), until, "nobody has seen it")
            time.sleep(0.05)
        seen = {key: jobs[0][key] for key in ("name", "stage", "come", "ranks", "waits_for", "nodes")}
        self.assertEqual(seen, {"name": "bert", "stage": "gathering", "come": 1, "ranks": 4, "waits_for": "ranks 0, 1, 3",
                                "nodes": []})
        self.assertRegex(self.ctl("jobs", "--cluster"), "bert +[0-9]+ +gathering +1/4 +0 +- +ranks 0, 1, 3\n")

    def test_three_levels_below_a_workers_machine(self):
        self.cluster(*self.mixed("b", "c"))
        # Worker "c" is the root, "b" sums its own and what "a" has, which does nothing but sum.
        tree = {"c": "", "b": "c", "a": "b", "w0": "a", "w1": "a"}
        self.ctl("plan", "set", self.tree_plan(["w0", "w1", "b", "c"], ["a"], [tree]))
        self.sweep(4)

    def test_four_levels_and_no_more(self):
        self.cluster(*self.mixed("b", "c", "d", "e"))
        tree = {"d": "", "c": "d", "b": "c", "a": "b", "w0": "a", "w1": "b"}
        self.ctl("plan", "set", self.tree_plan(["w0", "w1"], ["a", "b", "c", "d"], [tree]))
        self.sweep(2)
        five = {"e": "", **tree, "d": "e"}
        text = self.ctl("plan", "set", self.tree_plan(["w0", "w1"], ["a", "b", "c", "d", "e"], [five]), status=2)
        self.assertIn("5 levels; nodes have buffers for 4", text)

    def test_many_trees_one_of_them_for_small_operations(self):
        self.cluster(*self.mixed("b", "c"))
        workers = ["a", "b", "w2", "w3"]
        turned = [{"a": "b", "w2": "a", "b": "", "w3": "b"}, {"b": "a", "w3": "b", "a": "", "w2": "a"},
                  {"a": "c", "b": "c", "w2": "b", "w3": "a", "c": ""}]
        star = {"a": "c", "b": "c", "w2": "c", "w3": "c", "c": ""}
        self.ctl("plan", "set", self.tree_plan(workers, ["c"], turned, small=[star]))
        self.sweep(4)
        run = self.perf(self.address("a"), "--model", "resnet50", "--mode", "tensors", "--iters", "2", "--type", "i32",
                        "--check", ranks=4)
        text = run.finish()

    # -- Losses ----------------------------------------------------------------------------------

    def test_a_node_in_between_that_is_killed(self):
        self.cluster(*self.mixed("b", "c"))
        for name in ("b", "c"):
            self.ctl("plan", "set", self.racks())
            run = self.endless(ranks=4)
            self.nodes[name].kill()
            self.wait_for(2)
            # No other node can stand in for it.
            self.start(name, "--cluster", self.address("a"), "--cluster-name", name, "--cluster-host", "here")
            self.wait_for(3)
            self.until_repaired(run)
            # Rank 0 hears of it from its own node, where it has no connection to the lost one.
            self.assertRegex(run.output(), f'node "{name}" of the job died')
            run.end()
            self.nothing_left()
            self.ctl("plan", "set", "--closed-form")
            self.assertTrue(self.rows(self.address("a")))
            self.nothing_left()

    def test_a_rank_below_a_child_node_that_is_killed_is_named(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        for number in (0, 3):
            run = self.endless(ranks=4)
            os.kill(run.children()[number], signal.SIGKILL)
            text = self.endless_error(run)
            for other in set(range(4)) - {number}:
                self.assertRegex(text, f"rank {other}: peer lost: .*: rank {number} died")
            self.nothing_left()
            self.run_row("allreduce", "--min-bytes", "1M", "--max-bytes", "1M", "--type", "i32", "--check", ranks=4)

    def test_a_node_above_that_stands_still_is_named(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        before = self.held_by_nodes_that_are_warm()
        self.nodes["c"].pause()
        run = self.perf(self.address("a"), "--min-bytes", "1M", "--max-bytes", "1M", "--iters", "1", ranks=4)
        text = self.endless_error(run)
        self.nodes["c"].resume()
        self.assertRegex(text, 'the node above it, "c"|have not taken it within 10 s: .*"c"')
        self.nothing_left()
        self.until_held(before)
        self.run_row("allreduce", "--min-bytes", "1M", "--max-bytes", "1M", "--type", "i32", "--check", ranks=4)

    def held(self) -> dict:
        """By node: descriptors and threads, and mappings of shared memory."""
        def counts(process: int) -> tuple:
            with open(f"/proc/{process}/maps", encoding="utf-8") as maps:
                shared = sum("memfd:" in line for line in maps)
            return (*(len(os.listdir(f"/proc/{process}/{kind}")) for kind in ("fd", "task")), shared)
        return {name: counts(node.pid) for name, node in self.nodes.items()}

    def held_by_nodes_that_are_warm(self) -> dict:
        """What is made once is there."""
        self.run_row("allreduce", "--min-bytes", "1M", "--max-bytes", "1M", ranks=4)
        self.nothing_left()
        time.sleep(1)
        return self.held()

    def until_held(self, wanted: dict) -> None:
        until = time.monotonic() + TIMEOUT
        while any(now > then for name, had in wanted.items() for now, then in zip(self.held()[name], had)):
            self.assertLess(time.monotonic(), until, f"{self.held()}, before {wanted}")
            time.sleep(0.1)

    def test_nothing_stays_of_a_job_that_is_over(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        one = ("--min-bytes", "1M", "--max-bytes", "1M")
        before = self.held_by_nodes_that_are_warm()
        for _ in range(3):
            self.run_row("allreduce", *one, ranks=4)
            run = self.endless(ranks=4)
            run.kill()
            self.nothing_left()
        self.until_held(before)

    # -- Strangers -------------------------------------------------------------------------------

    def test_a_child_node_is_one_that_the_placement_names(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        run = self.perf(self.address("a"), "--min-bytes", "1M", "--max-bytes", "1M", "--iters", "100000000", "--job", "bert",
                        "--token", "secret", ranks=4)
        run.skip_to("^# allreduce")
        job = json.loads(self.ctl("--json", "jobs", node="c"))[0]
        self.assertEqual((job["height"], job["joined"]), (2, 0))
        self.assertEqual([place["child_nodes"] for place in job["vertices"]], [["a", "b"]] * 2)
        self.assertEqual(json.loads(self.ctl("--json", "jobs", node="b"))[0]["vertices"][0]["above"], "c")
        opening = {"version": 1, "job": "bert", "token": "secret", "ranks": 4, "epoch": job["epoch"], "child_node": "a", "lane": 0}
        self.assertIn("is taken by session", self.ask("c", "session.open", opening))
        self.assertIn("wrong token", self.ask("c", "session.open", {**opening, "token": "guess"}))
        for other in ({"child_node": "c"}, {"lane": 7}, {"child_node": "nobody"}):
            self.assertIn("is below none of this node's", self.ask("c", "session.open", {**opening, **other}))
        self.assertIn("is below none of this node's", self.ask("b", "session.open", opening))
        self.assertIn("no place here", self.ask("c", "session.open", {**opening, "epoch": job["epoch"] + 9}))
        self.assertIn("epoch", self.ask("c", "session.open", {key: opening[key] for key in opening if key != "epoch"}))
        self.assertIn("no session is open", self.ask("c", "session.empty", {"trees": [0]}))
        self.assertIsNone(run.poll(), "and the job runs on")

    def ask(self, node: str, method: str, parameters: dict) -> str:
        """The error that it is answered with."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(self.address(node).removeprefix("unix:"))
            connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode() + b"\n")
            answer = json.loads(connection.makefile().readline())
        return answer["error"]["message"]


if __name__ == "__main__":
    run_tests(("Trees.test_two_levels_below_a_helper",
               "Trees.test_a_node_in_between_that_is_killed"))
