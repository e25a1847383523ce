#!/usr/bin/env python3
"""Runs each example with three ranks against a tallyd of its own.

usage: run_examples.py TALLYD EXAMPLE...
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import Failed, Process, Tallyd  # noqa: E402

RANKS = 3


def run(example: str, address: str) -> bool:
    """True when every rank of the example ends well."""
    ranks = [Process([example, rank, RANKS], environment={"TALLY_ADDRESS": address}) for rank in range(RANKS)]
    try:
        outputs = [rank.finish(timeout=30) for rank in ranks]
    except Failed as failure:
        print(failure)
        return False
    print("".join(outputs), end="")
    return "" not in outputs


def main() -> int:
    tallyd, *examples = sys.argv[1:]
    with Tallyd(tallyd, "--log-level", "error") as node:
        fine = [run(example, node.address) for example in examples]
    print(f"{sum(fine)} of {len(examples)} examples ended well")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
