#!/usr/bin/env python3
"""Random plans on real nodes: trees of up to four levels, over shared memory and TCP, with nodes that stop for up to 50 ms
at any time. Every result is exact, and no node keeps anything.

usage: random_plans_test.py TALLYD TALLYCTL TALLY_PERF [--first SEED] [--plans N]
       by default as many as $TALLY_TEST_TIER wants: soak 20, else 4; 2 under sanitizers
"""

import argparse
import os
import random
import sys
import threading
import unittest

from nodes import Cluster
from trees_test import EXACT, KINDS, Trees

NODES = ["a", "b", "c", "d", "e"]
DEPTH = 4  # what nodes have buffers for


def random_tree(dice: random.Random, workers: list, helpers: list, root: str = "") -> dict:
    """By name the parent's, "" of the root. Nodes may sum; who is none is a leaf."""
    sums = [*dice.sample(helpers, dice.randint(0, len(helpers))), *(name for name in workers if name in NODES)]
    if not sums:
        sums = [helpers[0]]
    dice.shuffle(sums)
    if root:
        sums = [root, *(name for name in sums if name != root)]
    deepest = dice.randint(1, DEPTH)
    parents, depths = {sums[0]: ""}, {sums[0]: 0}
    for name in [*sums[1:], *(worker for worker in workers if worker not in sums)]:
        # A helper needs somebody below it.
        most = deepest - (1 if name in workers else 2)
        above = [one for one in sums if one in depths and depths[one] <= most]
        if not above:
            continue  # a helper that is not needed: whoever is at the root has room for workers
        parents[name] = dice.choice(above)
        depths[name] = depths[parents[name]] + 1
    while idle := [name for name in parents if name not in workers and name not in parents.values()]:
        for name in idle:
            del parents[name]
    return parents


class Restless(threading.Thread):
    """Stops one process or another for a while, until it is told that it is enough."""

    def __init__(self, dice: random.Random, processes: list):
        super().__init__()
        self.dice, self.processes, self.enough = dice, processes, threading.Event()

    def run(self) -> None:
        while not self.enough.wait(self.dice.uniform(0, 0.05)):
            one = self.dice.choice(self.processes)
            one.pause()
            self.enough.wait(self.dice.uniform(0, 0.05))
            one.resume()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.join()


class RandomPlans(Trees):
    FIRST, PLANS = 1, 4

    def try_one(self, seed: int) -> None:
        dice = random.Random(seed)
        at_nodes = dice.sample(NODES, dice.randint(0, 3))
        workers = [*at_nodes, *(f"w{i}" for i in range(dice.randint(0 if len(at_nodes) > 1 else 2, 3)))]
        dice.shuffle(workers)
        helpers = [name for name in NODES if name not in at_nodes]
        trees = [random_tree(dice, workers, helpers) for _ in range(dice.randint(1, 5))]
        ways = random.Random(seed + 1000)  # so that the trees are those of the seed
        for i, tree in enumerate(trees):
            root = next(name for name, parent in tree.items() if not parent)
            if ways.random() < 0.5:
                trees[i] = (tree, random_tree(ways, workers, helpers, root))
        small = [dice.choice(trees)] if dice.random() < 0.5 else []
        window, chunk = dice.choice((0, 1, 3, 64)), dice.choice((32768, 65536, 262144))
        print(f"seed {seed}: {len(workers)} ranks, {trees}, window {window}, chunk {chunk}", flush=True)
        self.ctl("plan", "set", self.tree_plan(workers, helpers, trees, small=small, window=window, chunk=chunk))
        sizes = ["--min-bytes", "4", "--max-bytes", "4M", "--factor", str(dice.choice((9, 17, 33))), "--inflight", "3"]
        with Restless(dice, list(self.nodes.values())):
            for kind, types in [("allreduce", EXACT), (dice.choice(KINDS[1:]), ["--type", "i32"])]:
                self.run_row(kind, *sizes, *types, "--check", "--shuffle", str(seed), ranks=len(workers))
        self.nothing_left()

    def test_random_plans(self):
        self.cluster(*self.mixed(*NODES[1:]))
        for seed in range(self.FIRST, self.FIRST + self.PLANS):
            with self.subTest(seed=seed):
                self.try_one(seed)


if __name__ == "__main__":
    default = 20 if os.environ.get("TALLY_TEST_TIER") == "soak" else 2 if os.environ.get("TALLY_SANITIZER") else 4
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for program in ("tallyd", "tallyctl", "tally_perf"):
        parser.add_argument(program)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--plans", type=int, default=default)
    arguments = parser.parse_args()
    Cluster.TALLYD, Cluster.TALLYCTL, Cluster.TALLY_PERF = arguments.tallyd, arguments.tallyctl, arguments.tally_perf
    RandomPlans.FIRST, RandomPlans.PLANS = arguments.first, arguments.plans
    unittest.main(argv=[sys.argv[0], "RandomPlans.test_random_plans"], verbosity=2)
