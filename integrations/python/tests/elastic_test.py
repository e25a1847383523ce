"""Elastic torchrun: ranks that die and launchers that join, and several trainings on one machine."""

import json
import os
import re
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import group
from own_nodes import WithNodesOfItsOwn
from ports import free_port

HERE = Path(__file__).resolve().parent
ELASTIC = HERE.parent / "examples/train_elastic.py"
TINY = HERE / "train_tiny.py"
SOAK = group.SOAK
WAYS = ("hook", "backend", "hook")


def worker_of(launcher: int, rank: int) -> int:
    """Returns the process of a rank that a launcher has started."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            environment = (entry / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if parent == launcher and f"RANK={rank}".encode() in environment:
            return int(entry.name)
    raise AssertionError(f"launcher {launcher} has no rank {rank}")


class Elastic(WithNodesOfItsOwn):
    """examples/train_elastic.py: the ranks are started again, and train on from the last checkpoint."""

    def program(self, name, epochs=5, pause=0.02):
        return [str(ELASTIC), "--epochs", str(epochs), "--pause", str(pause),
                "--checkpoint", f"{self.files.name}/{name}.pt", "--json", f"{self.files.name}/{name}.json"]

    def losses(self, name):
        return [epoch["loss"] for epoch in json.loads(Path(self.files.name, f"{name}.json").read_text())["epochs"]]

    def setUp(self):
        super().setUp()
        self.files = tempfile.TemporaryDirectory(prefix="tally-elastic-")

    def tearDown(self):
        self.files.cleanup()
        super().tearDown()

    def test_a_killed_rank_trains_on_from_the_checkpoint(self):
        calm = group.start_ranks([sys.executable, *self.program("calm", pause=0)], 2, short_end=True)
        self.assertEqual([rank.wait() for rank in calm], [0, 0])
        process = group.launched(2, "--standalone", "--max-restarts", "2", *self.program("killed"))
        for epoch in (2, 3) if SOAK else (2,):  # one restart for each
            process.skip_to(f"^epoch {epoch}")
            os.kill(worker_of(process.pid, 1), signal.SIGKILL)
            process.skip_to("^trains on after epoch")
        process.finish(0)
        self.assertEqual(self.losses("killed"), self.losses("calm"), "the same bits as without the deaths")

    def test_a_second_launcher_joins(self):
        port = free_port()
        flags = ("--nnodes", "1:2", "--max-restarts", "2", "--rdzv-backend", "c10d", "--rdzv-conf", "last_call_timeout=1",
                 "--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1")
        program = self.program("joined", epochs=100, pause=0.1)
        launchers = [group.launched(1, *flags, *program, **group.NEW_STORE)]
        launchers[0].skip_to("^epoch 1")
        launchers.append(group.launched(1, *flags, *program, **group.NEW_STORE))
        launchers[0].skip_to("^trains on after epoch [1-9][0-9]* with 2 ranks")
        launchers[0].skip_to("^epoch")
        for launcher in launchers:
            launcher.signal(signal.SIGTERM)
            launcher.finish(None)

    def test_several_trainings_on_one_machine(self):
        """All at once. In tier soak torch's launcher starts them; else they have what it tells its ranks."""
        if SOAK:
            trainings = [[group.launched(2, str(TINY), "--way", way)] for way in WAYS]
        else:
            trainings = [group.start_ranks([sys.executable, str(TINY), "--way", way], 2, TORCHELASTIC_RUN_ID="none") for way in WAYS]
        outputs = ["".join(group.outputs(processes)) for processes in trainings]
        self.assertEqual([process.poll() for processes in trainings for process in processes],
                         [0 for processes in trainings for _ in processes], outputs)
        results = [re.findall("[0-9a-f]{64}", text) for text in outputs]
        self.assertEqual(results, 3 * [2 * [results[0][0]]], "each training has its own sums")


if __name__ == "__main__":
    group.WarmProgram.imports += ("sklearn.datasets",)
    unittest.main(verbosity=2)
