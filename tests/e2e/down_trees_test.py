#!/usr/bin/env python3
"""Trees whose results go another way than their sums came, between real nodes.

usage: down_trees_test.py TALLYD TALLYCTL TALLY_PERF
"""

import trees_test
from nodes import Cluster, run_tests

SIZES = ["--min-bytes", "4", "--max-bytes", "2M", "--factor", "9"]


class DownTrees(Cluster):
    WORKERS = ["w0", "w1", "w2", "w3"]
    # Sums go over a and b, results over b and d. The results of w0 come from d, which sums nothing, those of w2 and w3 from
    # the root itself.
    UP = {"w0": "a", "w1": "a", "w2": "b", "w3": "b", "a": "c", "b": "c", "c": ""}
    DOWN = {"w0": "d", "d": "b", "w1": "b", "b": "c", "w2": "c", "w3": "c", "c": ""}

    def two_ways(self) -> str:
        return self.tree_plan(self.WORKERS, ["a", "b", "c", "d"], [(self.UP, self.DOWN)])

    def bytes_between(self) -> dict:
        """By node: whether it has sent partial sums up, and taken results from above."""
        totals = {name: self.stats(name)["totals"] for name in self.nodes}
        return {name: (some["bytes_up"] > 0, some["bytes_down"] > 0) for name, some in totals.items()}

    def test_every_kind_over_two_ways(self):
        self.cluster(*self.mixed("b", "c", "d"))
        self.ctl("plan", "set", self.two_ways())
        trees_test.Trees.sweep(self, 4)
        self.assertEqual(self.bytes_between(),
                         {"a": (True, False), "b": (True, True), "c": (False, False), "d": (False, True)})

    def test_workers_that_hand_on_one_way_alone(self):
        self.cluster(*self.mixed("b", "c"))
        # Sums are stars at worker c and at helper a; results go along paths of workers.
        plan = self.tree_plan(["b", "c", "w2"], ["a"], [
            ({"b": "c", "w2": "c", "c": ""}, {"b": "c", "w2": "b", "c": ""}),
            ({"b": "a", "c": "a", "w2": "a", "a": ""}, {"b": "a", "c": "b", "w2": "c", "a": ""})],
            small=[{"b": "a", "c": "a", "w2": "a", "a": ""}])
        self.ctl("plan", "set", plan)
        trees_test.Trees.sweep(self, 3)

    def test_sums_up_a_path_and_results_down_a_star(self):
        self.cluster(*self.mixed("b", "c"))
        path = {"w0": "a", "a": "b", "w1": "b", "b": "c", "w2": "c", "c": ""}
        star = {"w0": "c", "w1": "c", "w2": "c", "c": ""}
        self.ctl("plan", "set", self.tree_plan(["w0", "w1", "w2"], ["a", "b", "c"], [(path, star), path]))
        for kind in trees_test.KINDS:
            self.run_row(kind, *SIZES, "--type", "i32", "--check", ranks=3)
        self.nothing_left()

    def test_a_node_of_one_way_that_is_killed(self):
        self.cluster(*self.mixed("b", "c", "d"))
        for name in ("d", "b", "c"):
            self.ctl("plan", "set", self.two_ways())
            run = self.endless(ranks=4)
            self.nodes[name].kill()
            self.wait_for(3)
            # Every other node but a has a place in each way, and a has lost none.
            self.start(name, "--cluster", self.address("a"), "--cluster-name", name, "--cluster-host", "here")
            self.wait_for(4)
            self.until_repaired(run)
            self.assertRegex(run.output(), f'node "{name}"')
            run.end()
            self.nothing_left()
            self.run_row("allreduce", *SIZES, "--type", "i32", "--check", ranks=4)

    run_row = trees_test.Trees.run_row


if __name__ == "__main__":
    run_tests(("DownTrees.test_every_kind_over_two_ways",
               "DownTrees.test_a_node_of_one_way_that_is_killed"))
