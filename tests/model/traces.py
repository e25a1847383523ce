#!/usr/bin/env python3
"""Checks that the code accepts traces of the model of repair. README.md explains both.

usage: traces.py PROGRAM [--only NAME]... [--count N] [--seed N]

PROGRAM replays traces (accept_traces.cc). Without --count, all configurations together have some 350 traces in tier
fast of TALLY_TEST_TIER, 1,050 in the default tier, and 20,000 in tier soak.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pan
from configurations import HOLD, Check
from run import SKIPPED, traces

TOTAL = {"fast": 350, "default": 1_050, "soak": 20_000}


def is_replayed(check: Check) -> bool:
    """`go` for a change that is called off comes from no coordinator of this release. The replay has one coordinator, and
    one connection from each rank to it, and its jobs end when they lose a rank."""
    return not check.macros().keys() & {"LATE_GO", "TAKEOVERS", "DISCONNECTS", "FINISH", "OTHER_WAY"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="accept_traces of a build")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only traces of this configuration")
    parser.add_argument("--count", type=int, help="traces of each configuration")
    parser.add_argument("--seed", type=int, default=1, help="of the first trace (1)")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    if not shutil.which("spin"):
        print("spin is not installed (tools/setup --dev)")
        return SKIPPED
    chosen = [check for check in HOLD if is_replayed(check) and check.name in (asked.only or [check.name])]
    unknown = set(asked.only) - {check.name for check in chosen}
    if unknown:
        sys.exit(f"traces.py: no configuration with traces is named {', '.join(sorted(unknown))}")
    count = asked.count or -(-TOTAL[os.environ.get("TALLY_TEST_TIER", "default")] // len(chosen))
    with tempfile.NamedTemporaryFile("w", prefix="tally-traces-", encoding="utf-8") as file:
        for check in chosen:
            for lines in traces(check, range(asked.seed, asked.seed + count), len(os.sched_getaffinity(0))):
                file.write("\n".join(lines) + "\n")
        file.flush()
        return subprocess.run([asked.program, file.name], check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pan.ToolFailed as error:
        sys.exit(f"traces.py: {error}")
