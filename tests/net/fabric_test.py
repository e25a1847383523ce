#!/usr/bin/env python3
"""Transport fabric between network namespaces: the cases of faults.py.

usage: fabric_test.py TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak
"""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
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


@contextlib.contextmanager
def only_control_passes(network: Network) -> Iterator[None]:
    """A firewall at the node's machine that knows of its configured port alone."""
    rules = "\n".join(["table ip firewall {", "chain input {", "type filter hook input priority 0; policy drop;",
                       f"tcp dport {PORT} accept", "ct state established accept", "}", "}", ""])
    machine = network.machine(1)
    machine.run(["nft", "-f", "-"], input=rules, text=True, check=True)
    try:
        yield
    finally:
        machine.run(["nft", "delete", "table", "ip", "firewall"], check=True)


def blocked_ports_are_named(world: faults.World) -> None:
    """Who comes to a node of which the control port alone is open hears so, and soon."""
    node = re.escape(world.site.network.machine(1).address)
    with only_control_passes(world.site.network):
        for transport in ("fabric", ""):
            machine = world.site.machine(2)
            said = machine.run(["env", f"TALLY_TRANSPORT={transport}", world.rank_program, f"tcp:{world.site.address}",
                                "refused", "0", "1", "1000", "2000"], text=True, capture_output=True,
                               stdin=subprocess.DEVNULL, timeout=faults.PATIENCE).stdout
            if not re.search(rf"refused .*no connection from {re.escape(machine.address)} to the node's {node}:\d+ .*"
                             "docs/deploy.md", said):
                raise faults.Failed(f"transport {transport!r} with blocked ports: {said!r}")


faults.CASES += [blocked_ports_are_named]


def main() -> int:
    if reason := available():
        print(f"skipped: {reason}")
        return SKIPPED
    with Network(4) as network:
        return faults.main(Namespaces(network))


if __name__ == "__main__":
    sys.exit(main())
