#!/usr/bin/env python3
"""How jobs share a node: by their weights where they saturate it, and small operations beside large.

weights     Two jobs of two ranks keep one shard saturated; one has thrice the other's weight. The
            node's own counters say how many bytes it served to each over the same seconds.
neighbours  A job of 4 KiB operations alone and beside a job of 256 MiB operations, in turns.

usage: sharing.py [--build DIR] [--rounds N] [--seconds S] [--json FILE]
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from running_node import RunningNode, default_build

SATURATING = ["--spawn", "2", "--min-bytes", "16M", "--max-bytes", "16M", "--inflight", "4",
              "--iters", "1000000"]
LARGE = ["--spawn", "2", "--min-bytes", "256M", "--max-bytes", "256M", "--iters", "1000000"]
SMALL = ["--spawn", "2", "--min-bytes", "4K", "--max-bytes", "4K", "--iters", "4000", "--warmup",
         "400"]


def measure_weights(build: Path, rounds: int, seconds: float) -> dict:
    ratios = []
    for _ in range(rounds):
        with RunningNode(build, {"heavy": (3, 2), "light": (1, 2)}, ["--shards", "1"]) as node:
            for job in ("heavy", "light"):
                node.perf(job, *SATURATING)
            node.wait_until(lambda: len(served := node.bytes_by_job()) == 2 and all(served.values()))
            before = node.bytes_by_job()
            time.sleep(seconds)
            after = node.bytes_by_job()
        ratios.append((after["heavy"] - before["heavy"]) / (after["light"] - before["light"]))
    print(f"weights 3:1: served {statistics.median(ratios):.2f}:1 "
          f"({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds)")
    return {"weights": 3, "served": ratios}


def measure_neighbours(build: Path, rounds: int) -> dict:
    alone, beside = [], []
    jobs = {"small": (1, 2), "large": (1, 2)}
    for _ in range(rounds):
        with RunningNode(build, jobs, []) as node:
            alone += node.rows(node.perf("small", *SMALL))
            node.perf("large", *LARGE)
            node.wait_until(lambda: node.bytes_by_job().get("large", 0) > 0)
            beside += node.rows(node.perf("small", *SMALL))
    result = {}
    for name, rows in (("alone", alone), ("beside", beside)):
        result[name] = {key: [row[f"time_us_{key}"] for row in rows] for key in ("p50", "p95", "p99")}
        print(f"4 KiB {name:>6}: " + ", ".join(
            f"{key} {statistics.median(values):.1f} us" for key, values in result[name].items()))
    ratios = [b / a for a, b in zip(result["alone"]["p99"], result["beside"]["p99"])]
    result["p99_ratio"] = ratios
    print(f"p99 beside / alone: {statistics.median(ratios):.1f} "
          f"({min(ratios):.1f} to {max(ratios):.1f} in {rounds} rounds)")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["weights", "neighbours", []],
                        help="default: both")
    parser.add_argument("--build", type=Path, default=default_build(), help="the build to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each round of weights")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = {}
    if not options.what or "weights" in options.what:
        result["weights"] = measure_weights(options.build, options.rounds, options.seconds)
    if not options.what or "neighbours" in options.what:
        result["neighbours"] = measure_neighbours(options.build, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
