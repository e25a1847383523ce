"""A training run for failure_test.py: tiny, deterministic, and told what to suffer.

usage: train_tiny.py [--way hook|backend|view] [--steps N] [--suffer WHAT] [--at STEP] [--rank R] [--pause S]
                     [--deadline S]

Prints "step N" after every step, and at the end a hash of the parameters.
"""

import argparse
import hashlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tally.torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", default="hook")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--suffer", choices=["raise", "die", "die-once", "stop", "nothing"], default="nothing")
    parser.add_argument("--at", type=int, default=5)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--deadline", type=float, default=20, help="seconds")
    arguments = parser.parse_args()
    dist.init_process_group("tally" if arguments.way == "backend" else "gloo")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 1000), torch.nn.ReLU(), torch.nn.Linear(1000, 900),
                                torch.nn.ReLU(), torch.nn.Linear(900, 10))
    ddp = DistributedDataParallel(model, bucket_cap_mb=1,
                                  gradient_as_bucket_view=arguments.way == "view")
    if arguments.way != "backend":
        ddp.register_comm_hook(tally.torch.State(deadline=arguments.deadline), tally.torch.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(arguments.steps):
        if step == arguments.at and dist.get_rank() == arguments.rank:
            if arguments.suffer == "raise":
                raise ValueError("a mistake of the user's")
            if arguments.suffer == "die" or (arguments.suffer == "die-once" and
                                             os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"):
                os.kill(os.getpid(), signal.SIGKILL)
            if arguments.suffer == "stop":
                time.sleep(3600)
        optimizer.zero_grad()
        random = torch.Generator().manual_seed(step * 100 + dist.get_rank())
        ddp(torch.randn(16, 64, generator=random)).square().mean().backward()
        optimizer.step()
        print("step", step, flush=True)
        time.sleep(arguments.pause)
    digest = hashlib.sha256()
    for p in model.parameters():
        digest.update(p.detach().numpy().tobytes())
    print("parameters", digest.hexdigest(), flush=True)
    del ddp  # before gloo's group (docs/pytorch.md)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, ValueError) as failure:
        print(f"{type(failure).__name__}: {failure}", flush=True)
        sys.exit(3)
