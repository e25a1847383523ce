"""all_reduce of torch tensors through the backend "tally", beside gloo, in turns.

    tools/python -m torch.distributed.run --nproc-per-node 2 integrations/python/perf/collectives.py

Prints microseconds an operation, medians over the rounds, and how much of gloo's time that is.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist

import tally.torch  # noqa: F401

SIZES = [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]  # bytes


def time_of(group, tensor: torch.Tensor, repetitions: int) -> float:
    """Microseconds an operation; of the slowest rank."""
    dist.barrier(group)
    begin = time.perf_counter()
    for _ in range(repetitions):
        dist.all_reduce(tensor, group=group)
    taken = torch.tensor([(time.perf_counter() - begin) / repetitions * 1e6], dtype=torch.float64)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX, group=group)
    return taken.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {"tally": dist.new_group(backend="tally"), "gloo": dist.group.WORLD}
    if dist.get_rank() == 0:
        print(f"{'bytes':>10} {'tally, us':>12} {'gloo, us':>12} {'of gloo':>8}   "
              f"({dist.get_world_size()} ranks)")
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        repetitions = max(3, min(300, (64 << 20) // (size + (64 << 10))))
        times: dict = {name: [] for name in groups}
        for turn in range(rounds + 1):
            for name, group in groups.items():
                taken = time_of(group, tensor, repetitions)
                if turn > 0:
                    times[name].append(taken)
        ours, theirs = (statistics.median(times[name]) for name in ("tally", "gloo"))
        if dist.get_rank() == 0:
            print(f"{size:>10} {ours:>12.1f} {theirs:>12.1f} {ours / theirs:>8.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
