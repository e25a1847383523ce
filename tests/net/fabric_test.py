#!/usr/bin/env python3
"""Transport fabric between network namespaces: the cases of faults.py.

usage: fabric_test.py TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import faults  # noqa: E402
from network import SKIPPED, Machine, Network, available  # noqa: E402

PORT = 7733


class Namespaces:
    """A machine is a namespace."""

    config = ""
    node_flags = ["--verbs", "off"]
    elements = 1_000_000
    loss = 0.01

    def __init__(self, network: Network) -> None:
        self.network = network
        self.address = f"{network.machine(1).address}:{PORT}"

    def machine(self, index: int) -> Machine:
        return self.network.machine(index)

    def held(self, pid: int) -> dict[str, int]:
        return {}


def main() -> int:
    if reason := available():
        print(f"skipped: {reason}")
        return SKIPPED
    with Network(4) as network:
        return faults.main(Namespaces(network))


if __name__ == "__main__":
    sys.exit(main())
