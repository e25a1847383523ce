#!/usr/bin/env python3
"""Two builds of Tally beside each other: what a change costs or gains in the steady state.

All-reduces over shared memory (or TCP on the loopback interface), in turns: for each size and number of
workers the build under test and the other one run one after the other, each with a node of its own, and
the order changes from round to round. The table shows medians and the ratio of their times, round by round:
above 1 the build under test is slower. Run it on a quiet machine: tools/build --dir keeps an older build.

usage: two_builds.py OTHER [--build DIR] [--rounds N] [--seconds S] [--sizes S,S,...] [--workers N,N,...] [--tcp] [--cluster] [--json FILE]
"""

import argparse
import json
import statistics
from pathlib import Path

from running_node import RunningNode, default_build, free_port


def measure(build: Path, size: str, workers: int, seconds: float, tcp: bool, cluster: bool) -> float:
    """The median time of an operation in microseconds."""
    arguments = ["--listen-tcp", f"tcp:127.0.0.1:{free_port()}"] if tcp else []
    arguments += ["--cluster", "{address}", "--cluster-name", "a"] if cluster else []
    transport = ["--transport", "fabric"] if tcp else []
    with RunningNode(build, {"steady": (1, workers)}, arguments) as node:
        row, = node.rows(node.perf("steady", "--spawn", str(workers), "--min-bytes", size, "--max-bytes", size,
                                   "--duration", str(seconds), *transport))
    return row["time_us_p50"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the build folder to compare with")
    parser.add_argument("--build", type=Path, default=default_build(), help="the build under test")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--sizes", default="4K,1M,64M")
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--tcp", action="store_true", help="by libfabric over the loopback interface")
    parser.add_argument("--cluster", action="store_true", help="the node coordinates itself, so that jobs can be repaired")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = []
    print(f"{'size':>6} {'workers':>7} {'other, us':>11} {'this, us':>11} {'this over other':>15} {'lowest':>7} {'highest':>7}")
    for size in arguments.sizes.split(","):
        for workers in map(int, arguments.workers.split(",")):
            times = {arguments.build: [], arguments.other: []}
            for number in range(arguments.rounds):
                for build in list(times)[::1 if number % 2 else -1]:
                    times[build].append(measure(build, size, workers, arguments.seconds, arguments.tcp, arguments.cluster))
            this, other = times[arguments.build], times[arguments.other]
            ratios = [a / b for a, b in zip(this, other)]
            print(f"{size:>6} {workers:>7} {statistics.median(other):>11.1f} {statistics.median(this):>11.1f} "
                  f"{statistics.median(ratios):>15.3f} {min(ratios):>7.2f} {max(ratios):>7.2f}", flush=True)
            report.append({"size": size, "workers": workers, "this_us": this, "other_us": other})
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
