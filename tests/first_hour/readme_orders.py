#!/usr/bin/env python3
"""README's commands on a Debian with nothing installed, one after the other, in every order.

usage: readme_orders.py [--orders N] [--list] [--only I[,I...]]

The commands are those of README's section "Try it". `tools/test` runs as `tools/test --fast`: the builds with
sanitizers have folders of their own, to which no other command comes. A command that needs the packages of
another one must say so by name; it is tried again at the end of its order, and must then do.

Runs in tier soak ($TALLY_TEST_TIER) only: an order takes some ten minutes, the first one, which compiles, longer.
"""

import argparse
import itertools
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from debian import ROOT, Debian, Missing, base_system  # noqa: E402

SKIPPED = 77


def commands(readme: str) -> list[str]:
    """What the section "Try it" shows, without its comments."""
    section = readme.split("\n## Try it\n")[1].split("\n## ")[0]
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        found += [line.split(" #")[0].strip() for line in block.splitlines()]
    return [line for line in found if line]


def asked_for(status: int, output: str) -> str:
    """The command that a refused one names as what has to run first; "" when it names none."""
    match = re.search(r"run (tools/setup --python)", output)
    return match[1] if status != 0 and match else ""


def wrong(command: str, status: int, output: str) -> str:
    """What is wrong with how a command ended."""
    if status != 0:
        return f"{command} ended with {status}"
    if command.startswith("tools/test") and not re.search(r"^[1-9]\d* passed, 0 failed", output, re.MULTILINE):
        return f"{command} had failures"
    return ""


def run_order(order: tuple[str, ...]) -> list[str]:
    """What went wrong."""
    problems, done, postponed = [], [], []
    with Debian() as machine:
        def run(command: str) -> tuple[int, str]:
            print(f"\n$ {command}", flush=True)
            begun = time.monotonic()
            status, output = machine.run(command.replace("tools/test", "tools/test --fast", 1))
            print(f"[{command}: status {status}, {time.monotonic() - begun:.0f} s]", flush=True)
            return status, output

        for command in order:
            status, output = run(command)
            first = asked_for(status, output)
            if first and first in order and first not in done:
                postponed.append(command)
            elif problem := wrong(command, status, output):
                problems.append(problem)
            done.append(command)
        for command in postponed:
            if problem := wrong(command, *run(command)):
                problems.append(f"{problem}, after all others")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--orders", type=int, help="only the first N orders, README's own first")
    parser.add_argument("--only", help="only the orders with these numbers, with commas between them")
    parser.add_argument("--list", action="store_true", help="print the orders, and run none")
    arguments = parser.parse_args()
    orders = list(enumerate(itertools.permutations(commands((ROOT / "README.md").read_text(encoding="utf-8")))))
    if arguments.only:
        orders = [orders[int(number)] for number in arguments.only.split(",")]
    orders = orders[:arguments.orders]
    if arguments.list:
        for number, order in orders:
            print(f"{number}: " + "; ".join(order))
        return 0
    if os.environ.get("TALLY_TEST_TIER", "default") != "soak":
        print("runs in tier soak only: every order of README's commands installs and builds")
        return SKIPPED
    try:
        base_system()
    except Missing as reason:
        print(reason)
        return SKIPPED
    failed = 0
    for number, order in orders:
        print(f"\n== order {number}: " + "; ".join(order), flush=True)
        problems = run_order(order)
        failed += bool(problems)
        for problem in problems:
            print(f"FAILED order {number}: {problem}", flush=True)
    print(f"{len(orders) - failed} of {len(orders)} orders went well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
