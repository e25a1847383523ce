#!/usr/bin/env python3
"""All-reduce of two workers over TCP beside what plain sockets, and libfabric without a protocol, move in the
same shape, in turns.

Of each size: the bytes that come into the node and go out of it per second: Tally's over transport fabric on
loopback; `sockets`' and `rma`'s with four streams between three processes; and Tally's shares of these.

usage: network.py [--build DIR] [--rounds N] [--bar X] [--json FILE] [SIZE...]   (sizes like 16M)
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bar  # noqa: E402
from running_node import RunningNode, default_build, free_port  # noqa: E402

SIZES = ["1M", "16M", "64M", "256M"]
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(size: str) -> int:
    return int(size[:-1]) * UNITS[size[-1]]


def tally(build: Path, address: str, size: str) -> float:
    """GB/s in and out."""
    command = [build / "perf/tally-perf", "allreduce", "--spawn", "2", "--address", address,
               "--min-bytes", size, "--max-bytes", size, "--iters", "12", "--warmup", "3",
               "--json", "-"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          timeout=300)
    row = json.loads(done.stdout)["rows"][0]
    return 4 * bytes_of(size) / row["time_us_p50"] / 1e3


def ceiling(program: Path, size: str) -> float:
    done = subprocess.run([program, str(bytes_of(size)), "1"], check=True, text=True,
                          stdout=subprocess.PIPE, timeout=120)
    return float(done.stdout)


def share(ours: list, theirs: list) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--rounds", type=int, default=5)
    bar.add_option(parser, "the share of plain sockets is below X")
    parser.add_argument("--json", type=Path)
    parser.add_argument("sizes", nargs="*", default=SIZES)
    arguments = parser.parse_args()
    address = f"tcp:127.0.0.1:{free_port()}"
    rows = []
    with RunningNode(arguments.build, {}, ["--listen-tcp", address]):
        print(f"{'size':>6} {'tally, GB/s':>12} {'sockets':>8} {'share':>6} {'rma':>8} {'share':>6}")
        for size in arguments.sizes:
            ours, sockets, rma = [], [], []
            for _ in range(arguments.rounds):
                ours.append(tally(arguments.build, address, size))
                sockets.append(ceiling(arguments.build / "perf/sockets", size))
                rma.append(ceiling(arguments.build / "perf/rma", size))
            rows.append({"bytes": bytes_of(size), "tally": ours, "sockets": sockets, "rma": rma,
                         "share": share(ours, sockets), "share_of_rma": share(ours, rma)})
            print(f"{size:>6} {statistics.median(ours):>12.2f} {statistics.median(sockets):>8.2f} "
                  f"{share(ours, sockets):>6.2f} {statistics.median(rma):>8.2f} {share(ours, rma):>6.2f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))
    return bar.status(arguments.bar, {f"the share of plain sockets at {size}": row["share"]
                                      for size, row in zip(arguments.sizes, rows)})


if __name__ == "__main__":
    sys.exit(main())
