#!/usr/bin/env python3
"""Runs a fuzzer from its kept corpus for a while: by $TALLY_TEST_TIER fast 2 s, default 5 s, soak 600 s.

usage: run.py FUZZER NAME [--seconds N] [--keep]

An input that breaks something is left in the current folder (crash-...), and the command that replays
it is printed. With --keep what found new code is merged into tests/fuzz/corpus/NAME.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = {"fast": 2, "default": 5, "soak": 600}
MAX_BYTES = 2048


def main() -> int:
    tier = os.environ.get("TALLY_TEST_TIER", "default")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fuzzer", type=Path)
    parser.add_argument("name")
    parser.add_argument("--seconds", type=int, default=SECONDS.get(tier, SECONDS["default"]))
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    corpus = Path(__file__).parent / "corpus" / arguments.name
    fuzzer = arguments.fuzzer.resolve()
    with tempfile.TemporaryDirectory() as found:
        status = subprocess.run([fuzzer, f"-max_total_time={arguments.seconds}", f"-max_len={MAX_BYTES}",
                                 "-timeout=10", "-print_final_stats=1", found, corpus]).returncode
        if status != 0:
            print(f"fuzz: {arguments.name} broke; replay: {fuzzer} crash-... (in {Path.cwd()})")
        elif arguments.keep:
            # By code alone, not by how often it ran: a few files instead of hundreds.
            subprocess.run([fuzzer, "-merge=1", "-use_counters=0", f"-max_len={MAX_BYTES}", corpus, found],
                           check=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
