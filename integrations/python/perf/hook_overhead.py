"""What the hook costs over the C client: the same buckets, through either, in turns.

    tools/python -m torch.distributed.run --nproc-per-node 2 integrations/python/perf/hook_overhead.py

The gradients of ResNet-50 in DistributedDataParallel's buckets of 25 MB, in place. The C client is
tally-perf, on the same node; the hook is called as torch calls it, with nothing else to do.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

import tally.local
import tally.torch

ITERATIONS = 20


class Bucket:
    """As much of dist.GradBucket as the hook uses."""

    def __init__(self, index: int, buffer: torch.Tensor) -> None:
        self._index, self._buffer = index, buffer

    def index(self):
        return self._index

    def buffer(self):
        return self._buffer


def tally_perf(address: str) -> dict:
    """The times of its own ranks, and the buckets that it made."""
    program = Path(tally.local.tallyd_program()).parents[1] / "perf/tally-perf"
    with tempfile.NamedTemporaryFile() as report:
        subprocess.run([program, "allreduce", "--spawn", "2", "--address", address, "--job", "perf",
                        "--model", "resnet50", "--mode", "buckets", "--in-place", "--iters",
                        str(ITERATIONS), "--json", report.name], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(Path(report.name).read_text())["rows"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    box = [tally.local.own_node() if rank == 0 else None]
    dist.broadcast_object_list(box, 0)
    os.environ["TALLY_ADDRESS"] = box[0]
    state = tally.torch.State(in_place=True)
    # 102 MB as DistributedDataParallel cuts them: closed by the tensor that reaches 25 MB.
    sizes = [26_550_000 // 4, 26_450_000 // 4, 25_200_000 // 4]
    sizes.append(25_557_032 - sum(sizes))
    buckets = [Bucket(i, torch.ones(size)) for i, size in enumerate(sizes)]
    through_hook, through_client = [], []
    for _ in range(rounds):
        if rank == 0:
            through_client.append(tally_perf(box[0])["time_us_p50"])
        dist.barrier()
        times = []
        for _ in range(ITERATIONS):
            begin = time.perf_counter()
            for future in [tally.torch.allreduce_hook(state, bucket) for bucket in buckets]:
                future.wait()
            times.append(1e6 * (time.perf_counter() - begin))
        through_hook.append(statistics.median(times))
        dist.barrier()
    if rank == 0:
        ratios = sorted(h / c for h, c in zip(through_hook, through_client))
        print(f"C client {statistics.median(through_client):.0f} us, hook "
              f"{statistics.median(through_hook):.0f} us: ratio {statistics.median(ratios):.3f} "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f} in {rounds} rounds)")
        print(f"copied by the hook: {state.copied_bytes} bytes")
    state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
