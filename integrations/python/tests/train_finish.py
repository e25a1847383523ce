"""A training run for finish_test.py: it goes on without a rank, and a rank may return.

usage: train_finish.py [--way hook|view|both|backend] [--steps N] [--lost RANK] [--at STEP] [--job NAME [--returns]]

Prints "step N of C", where C is the number of ranks that contributed, after every step, and at the end a hash of the
parameters. With --job it trains until a rank has returned, and then 5 more steps.
"""

import argparse
import hashlib
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tally.torch

MORE_STEPS = 5


def model_of(arguments) -> tuple:
    """The model, and the State of its hook."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 1000), torch.nn.ReLU(), torch.nn.Linear(1000, 900), torch.nn.ReLU(),
                                torch.nn.Linear(900, 10))
    ddp = DistributedDataParallel(model, bucket_cap_mb=1, gradient_as_bucket_view=arguments.way == "view")
    if arguments.way == "backend":
        return ddp, None
    named = {"job": arguments.job} if arguments.job else {}
    if arguments.returns:
        named.update(rank=int(os.environ["RANK"]), ranks=int(os.environ["WORLD_SIZE"]))
    state = tally.torch.State(**named)
    ddp.register_comm_hook(state, tally.torch.allreduce_hook)
    return ddp, state


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", default="hook")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lost", type=int, default=-1)
    parser.add_argument("--at", type=int, default=5)
    parser.add_argument("--job")
    parser.add_argument("--returns", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0)
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    if arguments.returns:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gloo" if arguments.way in ("hook", "view") else "tally")
    ddp, state = model_of(arguments)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9)
    step, steps = torch.tensor(0), 1 << 30 if arguments.job else arguments.steps
    while step < steps:
        number = int(step)
        optimizer.zero_grad()
        random = torch.Generator().manual_seed(number * 100 + rank)
        loss = ddp(torch.randn(16, 64, generator=random)).square().mean()
        if number == arguments.at and rank == arguments.lost:
            # Dies amid the exchange: the gradients of the last layers are on their way.
            next(ddp.parameters()).register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        loss.backward()
        optimizer.step()
        step += 1
        print(f"step {number} of {state.contributors if state else tally.torch.contributors()}", flush=True)
        if arguments.job:
            momenta = [optimizer.state[p]["momentum_buffer"] for p in ddp.parameters()]
            if state.synchronize([*ddp.parameters(), *momenta, step]):
                print(f"together before step {int(step)}", flush=True)
                steps = int(step) + MORE_STEPS
        time.sleep(arguments.pause)
    digest = hashlib.sha256()
    for p in ddp.parameters():
        digest.update(p.detach().numpy().tobytes())
    print("parameters", digest.hexdigest(), flush=True)
    del ddp  # before gloo's group (docs/pytorch.md)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
