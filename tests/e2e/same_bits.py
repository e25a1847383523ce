#!/usr/bin/env python3
"""The result's bits do not depend on how it was made.

Sums the gradients of ResNet-50 again and again, with another order of announcement at every rank each
time, and with other numbers of shards, tile sizes and instruction sets; every element is checked, and
the hash of the result has to be the same every time.

usage: same_bits.py TALLY_PERF [--runs N]     default: by $TALLY_TEST_TIER (soak 100, else 8; 2 under sanitizers)
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

VARIANTS = list(itertools.product((1, 2, 4), ("0", "16K", "1M"), ("avx512", "avx2", "scalar")))


def has_isa(isa: str) -> bool:
    """By the kernel's word; the names are those of tallyd."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        flags = next((line for line in info if line.startswith("flags")), "").split()
    wanted = {"avx512": ["avx512f", "avx512bw", "avx512dq"], "avx2": ["avx2", "f16c"], "scalar": []}
    return all(flag in flags for flag in wanted[isa])


def hashes(tally_perf: str, seed: int, shards: int, tile: str, isa: str, path: str) -> set[str]:
    """The hash of one run; more than one when ranks or rows differ."""
    command = [tally_perf, "allreduce", "--spawn", "3", "--model", "resnet50", "--mode", "tensors",
               "--iters", "1", "--warmup", "0", "--check", "--shuffle", str(seed), "--shards", str(shards),
               "--isa", isa, "--json", path]
    if tile != "0":
        command += ["--tile-bytes", tile]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"same_bits: {' '.join(command)}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    if not rows or any(row["wrong"] != 0 for row in rows):
        sys.exit(f"same_bits: wrong elements: {rows}")
    return {row["hash"] for row in rows}


def main() -> int:
    soak = os.environ.get("TALLY_TEST_TIER") == "soak"
    default = 100 if soak else 2 if os.environ.get("TALLY_SANITIZER") else 8
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tally_perf")
    parser.add_argument("--runs", type=int, default=default)
    arguments = parser.parse_args()
    variants = [v for v in VARIANTS if has_isa(v[2])]
    # A step that shares no factor with the count: few runs still meet every value of each.
    variants = [variants[i * 10 % len(variants)] for i in range(len(variants))]
    seen: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(arguments.runs):
            shards, tile, isa = variants[run % len(variants)]
            what = f"seed {run + 1}, {shards} shards, tile {tile}, {isa}"
            for value in hashes(arguments.tally_perf, run + 1, shards, tile, isa, f"{folder}/out.json"):
                seen.setdefault(value, what)
            print(f"{what}: {' '.join(seen)}", flush=True)
    if len(seen) == 1:
        print(f"{arguments.runs} runs, one hash")
        return 0
    print(f"{len(seen)} hashes: {seen}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
