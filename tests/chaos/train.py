"""A rank of a training with DistributedDataParallel that goes on without lost ranks.

usage: train.py STORE RANK RANKS --job NAME [--returns]     a rank of a job. STORE is a file that its ranks share
       train.py --alone RANKS STEPS [--seed SEED]           the same training without faults, in one process

A rank prints "ready"; after each step "step N of C state CRC loss L", where C is the number of ranks that
contributed; and when ranks have returned, "together before step N". "until N" on its input ends it before step N.
"""

import argparse
import select
import sys
import time
import zlib
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

INPUTS, OUTPUTS, BATCH = 64, 10, 16
ENDLESS = 1 << 60


def network(hidden: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, hidden // 2),
                               torch.nn.Tanh(), torch.nn.Linear(hidden // 2, OUTPUTS))


class Task:
    """Learns what another network computes. The seed, the step and the rank determine a batch."""

    def __init__(self, seed: int = 1):
        torch.manual_seed(1)
        self._teacher = network(32).requires_grad_(False)
        self.student = network(512)
        self._seed = seed

    def loss(self, model, step: int, rank: int) -> torch.Tensor:
        random = torch.Generator().manual_seed(((step << 6) + rank) * 4 + self._seed)  # takes 32 bits
        inputs = torch.randn(BATCH, INPUTS, generator=random)
        return torch.nn.functional.mse_loss(model(inputs), self._teacher(inputs))


def optimizer_of(model) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def state_of(model) -> int:
    """A checksum of the parameters."""
    value = 0
    for parameter in model.parameters():
        value = zlib.crc32(parameter.detach().numpy(), value)
    return value


def alone(ranks: int, steps: int, seed: int) -> None:
    task = Task(seed)
    optimizer = optimizer_of(task.student)
    for step in range(steps):
        optimizer.zero_grad()
        loss = sum(task.loss(task.student, step, rank) for rank in range(ranks)) / ranks
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6g}")


class Rank:
    def __init__(self, arguments):
        import tally.torch
        self._rank = arguments.rank
        self._pause = arguments.pause
        if arguments.returns:
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        else:
            dist.init_process_group("gloo", init_method=f"file://{arguments.store}", rank=arguments.rank,
                                    world_size=arguments.ranks, timeout=timedelta(seconds=60))
        self._task = Task()
        self._ddp = DistributedDataParallel(self._task.student, bucket_cap_mb=0.25)
        named = {"rank": arguments.rank, "ranks": arguments.ranks} if arguments.returns else {}
        self._state = tally.torch.State(job=arguments.job, deadline=arguments.deadline, **named)
        self._ddp.register_comm_hook(self._state, tally.torch.allreduce_hook)
        self._optimizer = optimizer_of(self._ddp)
        self._step = torch.tensor(0)
        self.counts = not arguments.returns  # whether its steps are those of the others

    def run(self) -> None:
        end = ENDLESS
        while int(self._step) < end:
            number, loss = int(self._step), self._train()
            self._step += 1
            if self.counts:
                print(f"step {number} of {self._state.contributors} state {state_of(self._ddp)} loss {loss:.6g}", flush=True)
            momenta = [self._optimizer.state[p]["momentum_buffer"] for p in self._ddp.parameters()]
            if self._state.synchronize([*self._ddp.parameters(), *momenta, self._step]):
                print(f"together before step {int(self._step)}", flush=True)
                self.counts = True
            while select.select([sys.stdin], [], [], 0)[0]:
                end = int(sys.stdin.readline().split()[1])
        self._state.close()
        print("closed", flush=True)

    def _train(self) -> float:
        self._optimizer.zero_grad()
        loss = self._task.loss(self._ddp, int(self._step), self._rank)
        time.sleep(self._pause)
        loss.backward()
        self._optimizer.step()
        return loss.item()


def main() -> None:
    torch.set_num_threads(1)
    if "--alone" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--alone", nargs=2, type=int)
        parser.add_argument("--seed", type=int, default=1)
        arguments = parser.parse_args()
        alone(*arguments.alone, arguments.seed)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("rank", type=int)
    parser.add_argument("ranks", type=int)
    parser.add_argument("--job", required=True)
    parser.add_argument("--deadline", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.05, help="what the forward pass takes on an accelerator")
    parser.add_argument("--returns", action="store_true")
    arguments = parser.parse_args()
    try:
        rank = Rank(arguments)
        print("ready", flush=True)
        rank.run()
    except RuntimeError as error:  # those of tally, too
        print("failed" if "rank" in locals() and rank.counts else "refused", *str(error).split(), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
