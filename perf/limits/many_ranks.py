#!/usr/bin/env python3
"""What a byte of many ranks costs beside one of few: all-reduces of one size, by 16 and by more ranks in turns.

Each run has a node of its own. All ranks are processes of this machine, so both numbers of ranks share the
same cores and the same memory; the table shows the time per byte of input, over all ranks, and its ratio to
that of the first number of ranks, round by round.

usage: many_ranks.py [--build DIR] [--ranks N,N,...] [--rounds N] [--seconds S] [--bytes SIZE] [--tcp] [--json FILE]
"""

import argparse
import json
import statistics
from pathlib import Path

from running_node import RunningNode, default_build, free_port


def nanoseconds_per_byte(build: Path, ranks: int, size: str, seconds: float, tcp: bool) -> float:
    arguments = ["--listen-tcp", f"tcp:127.0.0.1:{free_port()}"] if tcp else []
    transport = ["--transport", "fabric"] if tcp else []
    with RunningNode(build, {"many": (1, ranks)}, arguments) as node:
        row, = node.rows(node.perf("many", "--spawn", str(ranks), "--min-bytes", size, "--max-bytes", size,
                                   "--duration", str(seconds), *transport))
    return row["time_us_p50"] * 1000 / (row["bytes"] * ranks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--ranks", default="16,64", help="the first is what the others are compared with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--bytes", default="16M", help="of the operation")
    parser.add_argument("--tcp", action="store_true", help="by libfabric over the loopback interface")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    numbers = [int(word) for word in arguments.ranks.split(",")]
    times: dict[int, list[float]] = {ranks: [] for ranks in numbers}
    for number in range(arguments.rounds):
        for ranks in numbers[::1 if number % 2 else -1]:
            times[ranks].append(nanoseconds_per_byte(arguments.build, ranks, arguments.bytes,
                                                     arguments.seconds, arguments.tcp))
    print(f"{'ranks':>6} {'ns per byte':>12} {'over ' + str(numbers[0]):>8} {'lowest':>7} {'highest':>8}")
    for ranks in numbers:
        ratios = [a / b for a, b in zip(times[ranks], times[numbers[0]])]
        print(f"{ranks:>6} {statistics.median(times[ranks]):>12.4f} {statistics.median(ratios):>8.3f} "
              f"{min(ratios):>7.2f} {max(ratios):>8.2f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
