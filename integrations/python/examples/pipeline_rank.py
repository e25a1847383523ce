"""A rank of train_pipeline.py: it measures its speed and links, and trains its part of each division."""

import dataclasses
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

import cpu_limits
import tally.torch
from pipeline_model import Pieces, blocks, loss_of, optimizer_of
from pipeline_plan import Division, Machine, seconds_of

TRANSFERS = 20  # of which a link's speed is the mean
CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Training:
    layers: int
    microbatch: int  # sequences
    microbatches: int  # of an iteration, of all chains together
    replicas: int  # of each stage
    steps: int  # measured steps; one more step comes before them
    calibrate: float  # seconds


@dataclasses.dataclass(frozen=True)
class Trained:
    seconds: list[float]  # of each iteration, at the rank that took longest
    losses: list[float]  # of each iteration, before its step
    blocks: dict[int, dict]  # the state of each block after the last step


def largest(value: float) -> float:
    """Of all ranks."""
    result = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(result, op=dist.ReduceOp.MAX)
    return result.item()


def of_all_ranks(value) -> list:
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def passes_per_second(training: Training, pieces: Pieces) -> float:
    """Of whole microbatches, while all ranks compute."""
    model = blocks(training.layers)
    given, wanted = pieces.batch(0, training.microbatch)
    loss_of(model(given), wanted).backward()  # torch prepares things once
    dist.barrier()
    begin, passes, took = time.perf_counter(), 0, 0.0
    while took < training.calibrate:
        loss_of(model(given), wanted).backward()
        passes += 1
        took = time.perf_counter() - begin
    return passes / took


def mean_seconds(transfer) -> float:
    """Of a function that all ranks call."""
    transfer()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(TRANSFERS):
        transfer()
    return largest((time.perf_counter() - begin) / TRANSFERS)


def speed_between_servers(training: Training, size: int, gloo) -> float:
    """Bytes per second, while each rank sends to the next server and receives from the one before."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    there, back = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)

    def transfer() -> None:
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, there, (rank + training.replicas) % ranks, gloo),
            dist.P2POp(dist.irecv, back, (rank - training.replicas) % ranks, gloo)])
        for work in works:
            work.wait()
    return size / mean_seconds(transfer)


def speed_inside(training: Training, size: int) -> float:
    """Bytes per second at which a ring would take as long as Tally takes to sum `size` bytes over the ranks of a server."""
    replicas, ranks = training.replicas, dist.get_world_size()
    servers = [dist.new_group(list(range(first, first + replicas)), backend="tally") for first in range(0, ranks, replicas)]
    gradient = torch.zeros(size // 4)
    seconds = mean_seconds(lambda: dist.all_reduce(gradient, group=servers[dist.get_rank() // replicas]))
    return 2 * (replicas - 1) / replicas * size / seconds


def measured(training: Training, profile: dict, pieces: Pieces) -> Machine:
    speeds = of_all_ranks(passes_per_second(training, pieces) * seconds_of(profile, (0, len(profile["blocks"]))))
    layers = profile["blocks"][1:-1]
    nic = speed_between_servers(training, int(layers[0]["output"]), dist.new_group(backend="gloo"))
    stages = dist.get_world_size() // training.replicas
    stage_bytes = int(sum(block["weights"] for block in layers) / stages)
    return Machine(speeds, nic, speed_inside(training, stage_bytes) if training.replicas > 1 else nic, training.replicas)


class Part:
    """This rank's stage of a division: its module, the sums with its other replicas, and torch's schedule."""

    def __init__(self, training: Training, division: Division):
        rank = dist.get_rank()
        self.stage, self.chain = division.place_of(rank)
        # Every rank must make every group.
        replicas = [dist.new_group(stage.ranks, backend="gloo") for stage in division.stages]
        pipes = [dist.new_group(chain, backend="gloo") for chain in division.chains]
        own = division.stages[self.stage]
        self.module = blocks(training.layers)[slice(*own.blocks)]
        self.is_first, self.is_last = self.stage == 0, self.stage == len(division.stages) - 1
        self.microbatches = division.microbatches[self.chain]
        self._state, module = None, self.module
        if len(own.ranks) > 1:
            # One job of Tally sums the gradients of this stage's replicas. By its name it follows the plan.
            self._state = tally.torch.State(replicas[self.stage], job=own.job)
            module = DistributedDataParallel(module, process_group=replicas[self.stage])
            module.register_comm_hook(self._state, tally.torch.allreduce_hook)
        pipe = pipes[self.chain]
        stage = PipelineStage(module, self.stage, len(division.stages), CPU, group=pipe, **self._shapes(training, own.blocks[0]))
        # A group has its ranks by rising number, and the plan has the order of the stages.
        stage.stage_index_to_group_rank = {
            index: dist.get_group_rank(pipe, other) for index, other in enumerate(division.chains[self.chain])}
        # The hook averages over the chains. So a chain's loss is its part of the mean over all microbatches, times the
        # number of chains.
        part = len(division.chains) / training.microbatches
        self._schedule = Schedule1F1B(stage, self.microbatches, scale_grads=False,
                                      loss_fn=lambda output, wanted: part * loss_of(output, wanted))

    def _shapes(self, training: Training, first_block: int) -> dict:
        """Examples of a microbatch. With them torch need not run the model first, which DistributedDataParallel would take
        for a pass of its own."""
        given, _ = Pieces().batch(0, training.microbatch)
        with torch.no_grad():
            value = blocks(training.layers)[:first_block](given) if first_block else given
            result = self.module(value)
        if not self.is_first:
            value.requires_grad_()
        return {"input_args": value, "output_args": result.requires_grad_()}

    def run(self, given: torch.Tensor, wanted: torch.Tensor) -> float:
        """Adds up the gradients of this chain's microbatches. Returns the chain's loss at the last stage, 0 elsewhere."""
        losses = []
        self._schedule.step(*([given] if self.is_first else []), target=wanted if self.is_last else None, losses=losses,
                            return_outputs=False)
        return sum(loss.item() for loss in losses)

    def close(self) -> None:
        if self._state is not None:
            self._state.close()


def train(training: Training, division: Division, pieces: Pieces) -> Trained:
    part = Part(training, division)
    optimizer = optimizer_of(part.module)
    before = training.microbatch * sum(division.microbatches[:part.chain])
    mine = slice(before, before + training.microbatch * part.microbatches)
    seconds, losses = [], []
    for step in range(1 + training.steps):
        given, wanted = pieces.batch(step, training.microbatch * training.microbatches)
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        losses.append(part.run(given[mine], wanted[mine]))
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    part.close()
    first = division.stages[part.stage].blocks[0]
    state = {first + number: block.state_dict() for number, block in enumerate(part.module)} if part.chain == 0 else {}
    ranks = of_all_ranks((seconds, losses, state))
    return Trained([max(times) for times in zip(*(rank[0] for rank in ranks))],
                   [sum(values) / len(division.chains) for values in zip(*(rank[1] for rank in ranks))],
                   {number: block for rank in ranks for number, block in rank[2].items()})


def start(rank: int, ranks: int, store: Path, group: Path | None) -> None:
    """Makes the default group, and enters the control group. The sessions of the default group keep a node running, which
    rank 0 starts before it has a limit of CPU time, so that the node has none."""
    torch.set_num_threads(1)
    dist.init_process_group("tally", init_method=f"file://{store}", rank=rank, world_size=ranks)
    dist.barrier()
    if group is not None:
        cpu_limits.enter(group)
    dist.barrier()
