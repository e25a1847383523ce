"""The node of random_faults.py, the jobs that must not notice what is done to others, and the job that it is done to."""

import argparse
import atexit
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import Failed, Process, Tallyd, end_all  # noqa: E402

BYSTANDERS = {"left": 2, "right": 3}  # ranks by job
SUM = 20_000  # elements, of the bystanders


class Wrong(Failed):
    """Something that must not be; its kind is counted."""

    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def holdings(pid: int) -> tuple[int, int]:
    """Descriptors and mappings of shared memory."""
    return len(os.listdir(f"/proc/{pid}/fd")), Path(f"/proc/{pid}/maps").read_text().count("/memfd:")


def free_hugepages() -> str:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free"):
            return line
    return ""


class World:
    """The node and those who must not notice what is done to others."""

    def __init__(self, programs: argparse.Namespace):
        self.programs = programs
        self.directory = tempfile.mkdtemp(prefix="tally-random-")
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        self.address = f"unix:{self.directory}/tallyd.sock"
        self.hugepages = free_hugepages()
        self.ranks: list[Process] = []
        self.perf = None
        self.start_node()
        for job, count in BYSTANDERS.items():
            self.ranks += [self.rank(r, count, job) for r in range(count)]
        for rank in self.ranks:
            rank.expect("^ready$")
        self.start_perf()
        self.held = self.holds()

    # -- processes -------------------------------------------------------------------------------

    def start_node(self, step: str = "") -> None:
        self.node = Tallyd(self.programs.tallyd, "--shards", "2", "--log-level", "error", folder=self.directory,
                           environment={"TALLY_DEBUG_STEP": step})

    def rank(self, rank: int, ranks: int, job: str, step: str = "") -> Process:
        return Process([self.programs.fault_rank, self.address, job, rank, ranks, 1 << 19],
                       environment={"TALLY_DEBUG_STEP": step})

    def start_perf(self) -> None:
        self.perf = Process([self.programs.tally_perf, "allreduce", "--address", self.address, "--job", "perf", "--spawn", 2,
                             "--min-bytes", "4K", "--max-bytes", "256K", "--factor", 8, "--iters", 400, "--check-each",
                             "--brief"])

    def look_at_perf(self, node_failed: bool) -> None:
        status = self.perf.poll()
        if status is None:
            return
        if status == 1:
            raise Wrong("wrong elements", "tally-perf found some")
        if status != 0 and not node_failed:
            raise Wrong("disturbed", f"tally-perf ended with {status}")
        self.start_perf()

    # -- what it holds ---------------------------------------------------------------------------

    def holds(self) -> tuple[int, int]:
        """Descriptors and mappings of the node while the bystanders alone are there."""
        self.perf.end()
        held, before = None, (0, 0)
        while held != before:
            held, before = before, holdings(self.node.pid)
            time.sleep(0.1)
        self.start_perf()
        return held

    def check_nothing_left(self) -> None:
        """tally-perf's sessions come and go: it has a few of each."""
        spare = 2 * (2 + 2), 2 * (1 + 4)
        until = time.monotonic() + 10
        while True:
            now = holdings(self.node.pid)
            if all(n <= h + s for n, h, s in zip(now, self.held, spare)):
                return
            if time.monotonic() > until:
                raise Wrong("left behind", f"{now} descriptors and mappings, {self.held} before")
            time.sleep(0.02)

    # -- the bystanders --------------------------------------------------------------------------

    def bystanders_go(self, rounds: int) -> None:
        for rank in self.ranks:
            rank.send(f"loop 7 {SUM} {rounds}")

    def bystanders_are_well(self, rounds: int) -> None:
        for rank in self.ranks:
            line = rank.line()
            if line.startswith("looped") and not line.endswith("wrong 0"):
                raise Wrong("wrong elements", line)
            if line != f"looped {rounds} wrong 0":
                raise Wrong("disturbed", line)

    def bystanders_come_back(self) -> None:
        """The node is another one: any answer means that it was lost."""
        for rank in self.ranks:
            line = rank.line()
            if "node lost" not in line and not line.startswith("refused session") \
                    and not line.endswith("wrong 0"):
                raise Wrong("disturbed", line)
        for rank in self.ranks:
            rank.send("open")
        for rank in self.ranks:
            rank.expect("^ready$")

    def end(self) -> None:
        self.perf.end()
        for rank in self.ranks:
            rank.end()
        time.sleep(0.1)
        self.node.signal(signal.SIGTERM)
        status = self.node.wait()
        if status != 0:
            raise Wrong("node crashes", f"it ended with {status}")
        left = os.listdir(self.directory)
        shutil.rmtree(self.directory)
        if left:
            raise Wrong("left behind", f"files {left}")
        if free_hugepages() != self.hugepages:
            raise Wrong("left behind", "hugepages")

    def abandon(self) -> None:
        end_all()
        shutil.rmtree(self.directory, ignore_errors=True)


class Victims:
    """The job that a fault is done to."""

    def __init__(self, world: World, dice: random.Random, step: str = ""):
        self.count = dice.randint(2, 4)
        self.who = dice.randrange(self.count)
        self.elements = dice.choice([10, 5_000, 50_000, 200_000, 500_000])
        self.ranks = [world.rank(r, self.count, "victims", step if r == self.who else "")
                      for r in range(self.count)]
        self.victim = self.ranks[self.who]
        self.others = [rank for rank in self.ranks if rank is not self.victim]

    def ready(self) -> "Victims":
        for rank in self.ranks:
            rank.expect("^ready$")
        return self

    def send(self, command: str, ranks=None) -> None:
        for rank in self.ranks if ranks is None else ranks:
            rank.send(command)

    def loop(self, rounds: int = 1_000_000) -> None:
        self.send(f"loop 5 {self.elements} {rounds}")

    def expect_lost(self, *reasons: str) -> None:
        for rank in self.others:
            line = rank.line()
            if "wrong" in line and not line.endswith("wrong 0"):
                raise Wrong("wrong elements", line)
            if not any(reason in line for reason in reasons):
                raise Wrong("disturbed", f"{line!r}, expected one of {reasons}")

    def end(self) -> None:
        for rank in self.ranks:
            rank.end()
