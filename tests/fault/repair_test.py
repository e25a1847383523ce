#!/usr/bin/env python3
"""Nodes that are lost while a job runs: the job goes on over the others, and no operation fails.

usage: repair_test.py TALLYD TALLYCTL TALLY_PERF FAULT_RANK [TEST...]

Node a coordinates and has no trees. The others are killed and started again, as often as LOSSES says.
"""

import json
import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from nodes import Cluster, run_tests  # noqa: E402
from ports import free_port  # noqa: E402
from processes import TIMEOUT, Process  # noqa: E402

TIER = os.environ.get("TALLY_TEST_TIER", "default")
LOSSES = {"soak": 100, "fast": 2}.get(TIER, 4)
ELEMENTS = 1 << 20
# More than end before a node is lost. With a sanitizer 600 rounds of 1 MiB took minutes on a busy machine.
ROUNDS = 100 if os.environ.get("TALLY_SANITIZER") else 400
FAULT_RANK = ""


class Repair(Cluster):
    def start_node(self, name: str, *more: str) -> None:
        self.start(name, "--cluster", self.address("a"), "--cluster-name", name, "--cluster-host", "here", *more,
                   shards=1)

    def nodes_and_ranks(self, names=("b", "c", "d"), ranks: int = 3, network: bool = False, plan: str = "",
                        elements: int = ELEMENTS) -> list:
        """The ranks of a job over these nodes."""
        self.network = network
        for name in ("a", *names):
            self.start_node(name, *self.listening(name))
        self.wait_for(1 + len(names))
        self.ctl("drain", "a")
        if plan:
            self.ctl("plan", "set", plan)
        started = [Process([FAULT_RANK, self.address("a"), "train", rank, ranks, elements],
                           environment={"TALLY_HOST": "elsewhere" if network else "here"}) for rank in range(ranks)]
        for rank in started:
            self.assertEqual(rank.line(), "ready")
        return started

    def listening(self, name: str) -> list:
        return ["--listen-tcp", f"tcp:127.0.0.1:{free_port()}", "--verbs", "off"] if self.network else []

    def loop(self, ranks: list, count: int, rounds: int, where: str = "out", tag: int = 7) -> None:
        for rank in ranks:
            rank.send(f"loop {tag} {count} {rounds} {where}")

    def looped(self, ranks: list, rounds: int) -> None:
        for rank in ranks:
            self.assertEqual(rank.line(TIMEOUT), f"looped {rounds} wrong 0")

    def end(self, ranks: list) -> None:
        for rank in ranks:
            rank.send("close")
        for rank in ranks:
            self.assertEqual(rank.line(), "closed")
            rank.send("exit")
        for rank in ranks:
            self.assertEqual(rank.wait(), 0)
        self.nothing_left()

    def lose(self, name: str) -> None:
        self.nodes.pop(name).kill()

    def lose_nodes(self, ranks: list, count: int, where: str) -> None:
        """Kills node after node under load, and starts each again."""
        rounds = 3000 if count < 10_000 else ROUNDS
        for loss in range(LOSSES):
            self.loop(ranks, count, rounds, where)
            time.sleep(0.1)
            name = "bcd"[loss % 3]
            self.lose(name)
            self.looped(ranks, rounds)
            for rank in ranks:
                rank.send("worst")
            worst = [rank.line().split() for rank in ranks]
            self.assertEqual({words[3] for words in worst}, {str(loss + 1)}, "each rank was repaired once more")
            print(f"{name} killed: longest round {max(int(words[1]) for words in worst)} ms", flush=True)
            self.start_node(name, *self.listening(name))
            self.wait_for(4)

    def stop_nodes(self, ranks: list) -> None:
        """Stops node after node under load. Each goes on while the ranks use the same buffers again.

        The operations use all of their region, so it can move out of the reach of a node in the middle of a tile."""
        rounds = ROUNDS * 3 // 2
        for loss in range(LOSSES):
            self.loop(ranks, 1 << 18, rounds)
            time.sleep(0.1)
            name = "bcd"[loss % 3]
            self.nodes[name].pause()
            self.looped(ranks, rounds)
            for rank in ranks:
                rank.send("worst")
            words = [rank.line().split() for rank in ranks]
            self.assertEqual({one[3] for one in words}, {str(loss + 1)}, "each rank was repaired once more")
            worst = max(int(one[1]) for one in words)
            print(f"{name} stopped: longest round {worst} ms", flush=True)
            self.assertLess(worst, 15_000, "the coordinator noticed it before it gave the node up after 30 s")
            self.loop(ranks, 1 << 18, rounds // 4)
            self.nodes[name].resume()
            self.looped(ranks, rounds // 4)
            self.wait_for(4)

    # -- tests ---------------------------------------------------------------------------------------

    def test_killed_nodes(self):
        ranks = self.nodes_and_ranks()
        self.lose_nodes(ranks, 1 << 18, "out")
        self.end(ranks)

    def test_killed_nodes_in_place(self):
        ranks = self.nodes_and_ranks()
        self.lose_nodes(ranks, 1 << 18, "preserve")
        self.end(ranks)

    def test_killed_nodes_over_tcp(self):
        ranks = self.nodes_and_ranks(network=True)
        self.lose_nodes(ranks, 1 << 18, "out")
        self.end(ranks)

    def test_stopped_nodes(self):
        ranks = self.nodes_and_ranks(elements=1 << 18)
        self.stop_nodes(ranks)
        self.end(ranks)

    def test_stopped_nodes_over_tcp(self):
        ranks = self.nodes_and_ranks(network=True)
        self.stop_nodes(ranks)
        self.end(ranks)

    def test_two_nodes_at_once(self):
        ranks = self.nodes_and_ranks()
        self.loop(ranks, 1 << 18, ROUNDS)
        for name in "bd":
            self.lose(name)
        self.looped(ranks, ROUNDS)
        self.end(ranks)

    def test_a_node_is_lost_while_the_plan_changes(self):
        ranks = self.nodes_and_ranks()
        self.loop(ranks, 1 << 18, ROUNDS)
        self.tallyctl("drain", "b", "--wait", "0")
        self.lose("c")
        self.looped(ranks, ROUNDS)
        self.end(ranks)

    def test_nodes_of_deeper_trees(self):
        """A root and then a node below it are lost; e and f stand in for them."""
        tree = {"w0": "b", "w1": "b", "w2": "c", "b": "d", "c": "d", "d": ""}
        plan = self.tree_plan(["w0", "w1", "w2"], ["b", "c", "d"], [tree])
        ranks = self.nodes_and_ranks("bcdef", plan=plan)
        for name in "db":
            self.loop(ranks, 1 << 18, ROUNDS)
            time.sleep(0.1)
            self.lose(name)
            self.looped(ranks, ROUNDS)
        shown = json.loads(self.ctl("--json", "nodes"))
        self.assertEqual({node["name"]: node["stands_in_for"] for node in shown if node["stands_in_for"]},
                         {"e": ["d"], "f": ["b"]})
        self.end(ranks)

    def test_in_place_without_a_copy(self):
        """The operation fails at all ranks, unless it had ended; the next ones end well."""
        ranks = self.nodes_and_ranks()
        self.loop(ranks, 1 << 18, 100_000, "in place")
        time.sleep(0.1)
        self.lose("b")
        for rank in ranks:
            self.assertRegex(rank.line(), "^7 node lost -1 1 ")
        self.loop(ranks, 1 << 18, 10, tag=8)
        self.looped(ranks, 10)
        self.end(ranks)

    def test_a_rank_is_lost_with_a_node(self):
        ranks = self.nodes_and_ranks()
        self.loop(ranks, 1 << 18, 100_000)
        ranks[2].kill()
        self.nodes["b"].kill()
        for rank in ranks[:2]:
            self.assertRegex(rank.line(), "^7 peer lost 2 ")

    def test_without_its_coordinator_a_job_cannot_be_repaired(self):
        ranks = self.nodes_and_ranks()
        self.loop(ranks, 1 << 18, 100_000)
        self.nodes["a"].kill()
        self.nodes["b"].kill()
        for rank in ranks:
            self.assertRegex(rank.line(), "^7 node lost .*coordinator|^7 node lost .*node")

    def test_small_operations_over_tcp(self):
        ranks = self.nodes_and_ranks(network=True)
        self.lose_nodes(ranks, 1 << 10, "in place")
        self.end(ranks)


if __name__ == "__main__":
    FAULT_RANK = sys.argv.pop(4)
    run_tests()
