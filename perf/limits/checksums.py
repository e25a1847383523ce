#!/usr/bin/env python3
"""What checksums cost: all-reduce of two workers at one node, with them and without, in turns.

Of each size: the time of both, medians over the rounds, and the median of the rounds' ratios.

usage: checksums.py [--build DIR] [--rounds N] [--ranks W] [--tcp] [--json FILE] [SIZE...]   (sizes like 16M)
"""

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

from network import bytes_of, free_port
from running_node import RunningNode, default_build

SIZES = ["64K", "1M", "64M"]


def all_reduce(build: Path, address: str, ranks: int, size: str, checksums: bool) -> float:
    """Microseconds, the median over the iterations."""
    iterations = str(max(10, min(2000, (1 << 30) // bytes_of(size))))
    command = [build / "perf/tally-perf", "allreduce", "--spawn", str(ranks), "--address", address,
               "--min-bytes", size, "--max-bytes", size, "--iters", iterations, "--json", "-"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          timeout=300, env={**os.environ, "TALLY_CHECKSUMS": str(int(checksums))})
    return json.loads(done.stdout)["rows"][0]["time_us_p50"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tcp", action="store_true", help="over transport fabric on loopback")
    parser.add_argument("--json", type=Path)
    parser.add_argument("sizes", nargs="*", default=SIZES)
    arguments = parser.parse_args()
    tcp = f"tcp:127.0.0.1:{free_port()}"
    rows = []
    with RunningNode(arguments.build, {}, ["--listen-tcp", tcp] if arguments.tcp else []) as node:
        address = tcp if arguments.tcp else node.address
        print(f"{'size':>6} {'without, us':>12} {'with, us':>12} {'ratio':>6}")
        for size in arguments.sizes:
            without, with_them = [], []
            for _ in range(arguments.rounds):
                for checksums, times in ((False, without), (True, with_them)):
                    times.append(all_reduce(arguments.build, address, arguments.ranks, size, checksums))
            ratio = statistics.median(b / a for a, b in zip(without, with_them))
            rows.append({"bytes": bytes_of(size), "without": without, "with": with_them, "ratio": ratio})
            print(f"{size:>6} {statistics.median(without):>12.1f} {statistics.median(with_them):>12.1f} "
                  f"{ratio:>6.2f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
