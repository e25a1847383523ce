#!/usr/bin/env python3
"""Runs each example with three ranks against a tallyd of its own.

usage: run_examples.py TALLYD EXAMPLE...
"""
import os
import subprocess
import sys
import tempfile

RANKS = 3


def run(example: str, environment: dict[str, str]) -> bool:
    """True when every rank of the example ends well."""
    ranks = [subprocess.Popen([example, str(rank), str(RANKS)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for rank in range(RANKS)]
    fine = True
    for process in ranks:
        output, _ = process.communicate(timeout=30)
        print(output, end="")
        fine &= process.returncode == 0 and output != ""
    return fine


def main() -> int:
    tallyd, *examples = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/tallyd.sock"
        node = subprocess.Popen([tallyd, "--listen", address, "--ready-fd", "1", "--log-level", "error"],
                                stdout=subprocess.PIPE, text=True)
        try:
            if node.stdout.readline() != "ready\n":
                sys.exit("tallyd did not start")
            environment = {**os.environ, "TALLY_ADDRESS": address}
            fine = [run(example, environment) for example in examples]
        finally:
            node.terminate()
        ended = node.wait(timeout=10)
    print(f"{sum(fine)} of {len(examples)} examples ended well, tallyd with {ended}")
    return 0 if all(fine) and ended == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
