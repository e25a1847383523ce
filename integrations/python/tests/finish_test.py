"""Trainings that go on without a rank that dies (TALLY_ON_RANK_LOSS=finish), and a rank that returns."""

import os
import re
import signal
import sys
import unittest
from pathlib import Path

import torch.distributed as dist

import group
from processes import Tallyd, end_all

PROGRAM = [sys.executable, str(Path(__file__).with_name("train_finish.py"))]
AT, STEPS = 5, 20
RANKS = 4


def steps_of(output: str) -> list:
    """The steps of a rank, each with the number of ranks that contributed."""
    return [(int(step), int(ranks)) for step, ranks in re.findall(r"^step (\d+) of (\d+)$", output, re.MULTILINE)]


def hash_of(output: str) -> str:
    found = re.findall(r"^parameters (\w+)$", output, re.MULTILINE)
    return found[0] if found else f"no parameters in:\n{output}"


class Finish(unittest.TestCase):
    def setUp(self):
        self.addCleanup(end_all)
        # A node that coordinates itself.
        self.node = Tallyd(os.environ["TALLYD"], "--cluster", "{address}", "--cluster-name", "a", "--log-level", "error")
        self.store = None

    def start(self, *arguments: str, ranks: int = RANKS, **more) -> list:
        # Rank 0 may die, so it has not the store. Each training needs a new one.
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        return group.start_ranks(PROGRAM + [str(word) for word in arguments], ranks, short_end=True, **{
            "TALLY_ADDRESS": self.node.address, "TALLY_ON_RANK_LOSS": "finish", "MASTER_PORT": str(self.store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True", **more})

    def ended_well(self, ranks: list) -> list:
        """The outputs of these ranks, which end with the same parameters."""
        outputs = group.outputs(ranks)
        self.assertEqual([rank.poll() for rank in ranks], [0] * len(ranks), outputs)
        self.assertEqual(len({hash_of(text) for text in outputs}), 1, outputs)
        return outputs

    def finish_without(self, lost: int, way: str) -> None:
        ranks = self.start("--way", way, "--lost", lost, "--at", AT, "--steps", STEPS)
        dead = ranks.pop(lost)
        outputs = self.ended_well(ranks)
        self.assertEqual(dead.wait(), -signal.SIGKILL)
        for text in outputs:
            steps = steps_of(text)
            self.assertEqual([step for step, _ in steps], list(range(STEPS)), "each step once")
            self.assertEqual([ranks for _, ranks in steps], [RANKS] * AT + [RANKS - 1] * (STEPS - AT))

    def test_others_go_on_in_the_same_step(self):
        for way in ("hook", "view", "both", "backend"):
            with self.subTest(way):
                self.finish_without(2, way)

    def test_rank_0_may_be_lost(self):
        for way in ("hook", "backend"):
            with self.subTest(way):
                self.finish_without(0, way)

    def test_a_rank_returns_and_has_the_state_of_the_others(self):
        ranks = self.start("--job", "digits", "--lost", 2, "--at", AT, "--pause", 0.02)
        self.assertEqual(ranks[2].wait(), -signal.SIGKILL)
        ranks[0].skip_to(f"^step {AT} of {RANKS - 1}")
        back, = self.start("--job", "digits", "--returns", ranks=1, RANK="2", WORLD_SIZE=str(RANKS))
        ranks[2] = back
        outputs = self.ended_well(ranks)
        together = {re.findall(r"^together before step (\d+)$", text, re.MULTILINE)[0] for text in outputs}
        self.assertEqual(len(together), 1, outputs)
        for text in outputs:
            steps = steps_of(text)
            first = int(*together)
            self.assertEqual(steps[-5:], [(first + i, RANKS) for i in range(5)], text)
        for text in outputs[:2] + outputs[3:]:
            self.assertEqual([step for step, _ in steps_of(text)], list(range(first + 5)), "each step once")

    def test_a_rank_that_has_lost_its_nodes_does_not_open_the_job_again(self):
        """The other ranks may have left it out, and then take no part in its new session."""
        ranks = self.start("--job", "digits", "--pause", 0.02, ranks=2)
        ranks[0].skip_to("^step 3 of 2")
        self.node.kill()
        for text in group.outputs(ranks):
            self.assertIn("start its process again", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
