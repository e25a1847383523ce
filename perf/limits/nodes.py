#!/usr/bin/env python3
"""Two nodes on one host beside one node with as many shards, over shared memory.

What a second node costs is what a session pays for it: two connections, two doorbells, completions from two processes.
All-reduces of two workers, in turns, medians of rounds; the ratio is one node's time over that of two.

usage: nodes.py [--build DIR] [--rounds N] [--sizes S,S,...] [--json FILE]
"""

import argparse
import json
import os
import statistics
from contextlib import ExitStack
from pathlib import Path

from running_node import RunningNode, default_build

HOST = "here"  # the name by which nodes and workers know that they share a machine


def cluster(build: Path, stack: ExitStack, nodes: int, shards: int) -> RunningNode:
    first = stack.enter_context(RunningNode(build, {}, ["--shards", str(shards)]) if nodes == 1 else
                                member(build, None, "n0", shards))
    for number in range(1, nodes):
        stack.enter_context(member(build, first, f"n{number}", shards))
    first.wait_until(lambda: nodes == 1 or len(first.ask("nodes")) == nodes)
    return first


def member(build: Path, coordinator: RunningNode | None, name: str, shards: int) -> RunningNode:
    return RunningNode(build, {}, ["--shards", str(shards), "--cluster-name", name, "--cluster-host", HOST, "--cluster",
                                   coordinator.address if coordinator else "{address}"])


def measure(build: Path, size: str, nodes: int, shards: int) -> float:
    """Microseconds; of as many operations as fit into a second: ranks and shards learn how long to wait for one another."""
    with ExitStack() as stack:
        node = cluster(build, stack, nodes, shards)
        row, = node.rows(node.perf("job", "--spawn", "2", "--min-bytes", size, "--max-bytes", size, "--duration", "1",
                                   "--check", token=False))
    return row["time_us_p50"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="4K,64K,1M,16M,64M")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ["TALLY_HOST"] = HOST
    report = []
    print(f"{'size':>6} {'one node, us':>13} {'two nodes, us':>14} {'one over two':>13} {'lowest':>7} {'highest':>8}")
    for size in arguments.sizes.split(","):
        times = {1: [], 2: []}
        for _ in range(arguments.rounds):
            for nodes in times:
                times[nodes].append(measure(arguments.build, size, nodes, 2 // nodes))
        ratios = [one / two for one, two in zip(times[1], times[2])]
        one, two = (statistics.median(times[nodes]) for nodes in times)
        print(f"{size:>6} {one:>13.1f} {two:>14.1f} {statistics.median(ratios):>13.3f} {min(ratios):>7.2f} "
              f"{max(ratios):>8.2f}", flush=True)
        report.append({"size": size, "one_us": times[1], "two_us": times[2], "ratios": ratios})
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
