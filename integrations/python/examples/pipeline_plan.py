"""What train_pipeline.py gives to `tallyctl plan pipeline`, and what it makes of the answer."""

import dataclasses
import json
import subprocess
import uuid
from pathlib import Path

import tally.local

FILE_OF_GPUS = "tally-gpus/1"
TORCH = "torch-"  # with which the names of PyTorch's jobs begin
TYPE = "cpu"  # all ranks have processors of one type, which differ in speed


@dataclasses.dataclass(frozen=True)
class Stage:
    blocks: tuple[int, int]  # from the first number up to the second one, which is not in it
    ranks: list[int]
    domain: str  # of the plan, and the name of the job that sums the gradients of this stage's replicas

    @property
    def job(self) -> str:
        """For tally.torch.State."""
        return self.domain.removeprefix(TORCH)


@dataclasses.dataclass(frozen=True)
class Division:
    """A model divided into stages. A *chain* is a rank of each stage; its microbatches pass these ranks."""

    name: str
    stages: list[Stage]
    microbatches: list[int]  # of each chain
    seconds: float  # predicted, of an iteration

    @property
    def chains(self) -> list[list[int]]:
        return [list(ranks) for ranks in zip(*(stage.ranks for stage in self.stages))]

    def place_of(self, rank: int) -> tuple[int, int]:
        """The stage and the chain of a rank."""
        return next((number, stage.ranks.index(rank)) for number, stage in enumerate(self.stages) if rank in stage.ranks)

    def describe(self) -> str:
        return ", ".join(f"blocks {stage.blocks[0]}-{stage.blocks[1] - 1} on ranks {' '.join(map(str, stage.ranks))}"
                         for stage in self.stages)


@dataclasses.dataclass(frozen=True)
class Machine:
    """What was measured of the ranks. Ranks that follow each other form servers of `replicas` ranks."""

    speeds: list[float]  # of each rank; 1: that at which the blocks were profiled
    nic: float  # bytes per second between servers
    inside: float  # and within one
    replicas: int

    def servers(self) -> list[dict]:
        return [{"name": f"s{first // self.replicas}", "nic": self.nic, "inside": self.inside,
                 "gpus": [{"type": TYPE, "speed": speed} for speed in self.speeds[first:first + self.replicas]]}
                for first in range(0, len(self.speeds), self.replicas)]


def seconds_of(profile: dict, blocks: tuple[int, int]) -> float:
    """Of both passes of a microbatch through these blocks, at speed 1."""
    return sum(block["forward"][0] + block["backward"][0] for block in profile["blocks"][slice(*blocks)])


def joined(profile: dict, parts: list[tuple[int, int]]) -> dict:
    """The profile with the blocks of each part as one block."""
    made = []
    for part in parts:
        inner = profile["blocks"][slice(*part)]
        sums = {key: sum(block[key] for block in inner) for key in ("stash", "weights")}
        times = {key: [sum(block[key][0] for block in inner)] for key in ("forward", "backward")}
        made.append({**inner[-1], **sums, **times, "name": inner[0]["name"], "kept": inner[0]["kept"]})
    return {**profile, "blocks": made}


def shares(seconds: list[float], microbatches: int, least: int) -> list[int]:
    """The microbatches of each chain, which takes so many seconds for each: such that the last chain ends as soon as
    possible, and each has at least `least`."""
    counts = [least] * len(seconds)
    for _ in range(microbatches - sum(counts)):
        next_one = min(range(len(counts)), key=lambda chain: (counts[chain] + 1) * seconds[chain])
        counts[next_one] += 1
    return counts


class Planner:
    """Calls `tallyctl plan pipeline` with files in `folder`, which stay there."""

    def __init__(self, folder: Path, profile: dict, machine: Machine, microbatches: int):
        self._folder, self._profile, self._machine, self._microbatches = folder, profile, machine, microbatches
        self._run = uuid.uuid4().hex[:8]  # a node may serve several runs, and each job needs a name of its own
        self._gpus = folder / "gpus.json"
        self._gpus.write_text(json.dumps({"fmt": FILE_OF_GPUS, "servers": machine.servers()}, indent=1) + "\n")

    def planned(self) -> Division:
        count = len(self._profile["blocks"])
        return self._division("planned", self._profile, [(block, block + 1) for block in range(count)])

    def even(self) -> Division:
        """The same number of blocks for each stage. The planner has only the order of the servers to choose."""
        count, stages = len(self._profile["blocks"]), len(self._machine.speeds) // self._machine.replicas
        parts = [(count * stage // stages, count * (stage + 1) // stages) for stage in range(stages)]
        return self._division("even", joined(self._profile, parts), parts)

    def _division(self, name: str, profile: dict, parts: list[tuple[int, int]]) -> Division:
        file = self._folder / f"{name}-profile.json"
        file.write_text(json.dumps(profile, indent=1) + "\n")
        answer = self._ask(file, self._folder / f"{name}-plan.json", f"{TORCH}{self._run}-{name}-")
        stages = [Stage((parts[stage["blocks"][0]][0], parts[stage["blocks"][1] - 1][1]),
                        [gpu["rank"] for gpu in stage["gpus"]], stage["domain"])
                  for stage in answer["stages"]]
        slowest = [max(seconds_of(self._profile, stage.blocks) / self._machine.speeds[stage.ranks[chain]] for stage in stages)
                   for chain in range(self._machine.replicas)]
        return Division(name, stages, shares(slowest, self._microbatches, len(stages)), answer["iteration"])

    def _ask(self, profile: Path, out: Path, job_prefix: str) -> dict:
        program = Path(tally.local.tallyd_program()).with_name("tallyctl")
        command = [program, "--json", "plan", "pipeline", "--profile", profile, "--gpus", self._gpus, "--out", out,
                   "--objective", "iteration", "--microbatches", self._microbatches, "--replicas", self._machine.replicas,
                   "--no-recompute", "--job-prefix", job_prefix]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        return json.loads(done.stdout)
