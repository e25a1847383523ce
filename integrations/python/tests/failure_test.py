"""Ranks that raise, die and stop; nodes that are killed. All ranks get the error, the training
continues where it can, and nothing is left behind."""

import functools
import os
import re
import signal
import sys
import time
import unittest
from pathlib import Path

import group
from own_nodes import WithNodesOfItsOwn

HERE = Path(__file__).resolve().parent
SOAK = group.SOAK
TINY = [sys.executable, str(HERE / "train_tiny.py")]

GROUPS = """
import sys, torch.distributed as dist, tally.torch
dist.init_process_group("tally")
groups = [dist.new_group([0, 1]), dist.new_group([1])]
state = tally.torch.State()
dist.barrier()
print("made", flush=True)
sys.stdin.readline()
state.close()
dist.destroy_process_group()
"""


def result_of(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("parameters ")]
    return lines[0] if lines else f"no parameters in:\n{output}"


def run_tiny(*flags, ranks=2, **environment):
    """Returns the exit statuses and the outputs of the ranks."""
    processes = group.start_ranks(TINY + list(flags), ranks, **environment)
    outputs = group.outputs(processes)
    return [process.poll() for process in processes], outputs


@functools.cache
def calm_result() -> str:
    """The parameters after 40 steps that lose nothing."""
    return result_of(run_tiny("--steps", "40")[1][0])


class Failures(WithNodesOfItsOwn):
    def test_a_rank_that_raises_ends_the_others(self):
        for way in ("hook", "backend"):
            codes, outputs = run_tiny("--way", way, "--suffer", "raise", ranks=3)
            self.assertEqual(codes, [3, 3, 3], outputs)
            self.assertIn("a mistake of the user's", outputs[1])
            for rank in (0, 2):
                self.assertRegex(outputs[rank], r"rank 1|Connection|peer")

    def test_a_rank_that_dies_is_named(self):
        for way in ("hook", "backend", "view"):
            begin = time.monotonic()
            codes, outputs = run_tiny("--way", way, "--suffer", "die", ranks=3)
            self.assertEqual(codes, [3, -signal.SIGKILL, 3], outputs)
            self.assertLess(time.monotonic() - begin, 30)
            for rank in (0, 2):
                self.assertIn("rank 1", outputs[rank])

    def test_a_rank_that_stops_is_named_at_the_deadline(self):
        processes = group.start_ranks(TINY + ["--suffer", "stop", "--deadline", "4" if SOAK else "2"], 2)
        outputs = group.outputs(processes[:1])
        processes[1].kill()
        group.outputs(processes[1:])
        self.assertEqual(processes[0].poll(), 3, outputs)
        self.assertIn("rank 1", outputs[0])

    def test_training_goes_on_after_a_rank_that_stops_for_less_than_the_deadline(self):
        trainings = [group.start_ranks(TINY + ["--way", way, "--pause", "0.05"], 2) for way in ("hook", "backend")]
        for processes in trainings:
            processes[1].skip_to("^step 8")
            processes[1].pause()
        time.sleep(10 if SOAK else 3)
        for processes in trainings:
            self.assertTrue(processes[1].is_paused())
            processes[1].resume()
        for processes in trainings:
            outputs = group.outputs(processes)
            self.assertEqual([process.poll() for process in processes], [0, 0], outputs)
            self.assertEqual(result_of(outputs[0]), result_of(outputs[1]))

    def train_through_the_loss_of_a_node(self, kill, **environment):
        """The parameters at the end, as every rank has them."""
        processes = group.start_ranks(TINY + ["--steps", "40", "--pause", "0.05"], 2, **environment)
        processes[0].skip_to("^step 8")
        kill()
        outputs = group.outputs(processes)
        self.assertEqual([process.poll() for process in processes], [0, 0], outputs)
        return {result_of(text) for text in outputs}

    def test_training_goes_on_when_the_node_is_killed_and_started_again(self):
        with group.node() as node:
            found = self.train_through_the_loss_of_a_node(node.restart, TALLY_ADDRESS=node.address)
        self.assertEqual(found, {calm_result()}, "the same bits as without the loss")

    def test_training_goes_on_with_another_node_of_its_own(self):
        found = self.train_through_the_loss_of_a_node(
            lambda: [os.kill(node, signal.SIGKILL) for node in self.nodes()])
        self.assertEqual(found, {calm_result()}, "the same bits as without the loss")

    def test_names_what_is_missing(self):
        codes, outputs = run_tiny(TALLYD="/nowhere/tallyd")
        self.assertEqual(codes, [3, 3], outputs)
        for text in outputs:
            self.assertIn("/nowhere/tallyd", text)

    def test_a_lost_node_that_does_not_come_back_is_an_error(self):
        with group.node() as node:
            processes = group.start_ranks(TINY + ["--way", "backend", "--pause", "0.05"], 2,
                                          TALLY_ADDRESS=node.address)
            processes[0].skip_to("^step 3")
            node.kill()
            outputs = group.outputs(processes)
            node.restart()
        for process, text in zip(processes, outputs):
            self.assertEqual(process.poll(), 3, text)
            self.assertIn(f"the node at {node.address}", text)


class Launcher(WithNodesOfItsOwn):
    def launch(self, ranks, *arguments, status=0, **environment) -> str:
        """Returns the output."""
        return group.launched(ranks, *arguments, **environment).finish(status, timeout=120)

    @unittest.skipUnless(SOAK, "elastic_test.py starts ranks again in every tier")
    def test_a_run_that_is_started_again_ends_well(self):
        printed = self.launch(2, "--standalone", "--max-restarts", "1", TINY[1], "--steps", "10", "--suffer", "die-once",
                              **group.NEW_STORE)
        self.assertEqual(len(set(re.findall("[0-9a-f]{64}", printed))), 1, printed)

    def test_groups_share_a_node(self):
        processes = group.start_ranks([sys.executable, "-c", GROUPS], 2)
        processes[0].skip_to("^made")
        self.assertEqual(len(self.nodes()), 1)
        for process in processes:
            process.send("")
        outputs = group.outputs(processes)
        self.assertEqual([process.poll() for process in processes], [0, 0], outputs)

    def test_ctrl_c_leaves_nothing(self):
        process = group.launched(2, TINY[1], "--steps", "4000", "--pause", "0.05")
        process.skip_to("step 3")
        os.killpg(process.pid, signal.SIGINT)
        process.finish(None)
        self.assertNotEqual(process.poll(), 0)

    @unittest.skipUnless(SOAK, "in other tiers Failures.test_names_what_is_missing starts the ranks")
    def test_names_what_is_missing(self):
        self.assertIn("/nowhere/tallyd", self.launch(1, TINY[1], status=1, TALLYD="/nowhere/tallyd"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
