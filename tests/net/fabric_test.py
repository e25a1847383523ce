#!/usr/bin/env python3
"""Transport fabric between network namespaces: the cases of faults.py, and those of the kernel's TCP.

usage: fabric_test.py TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak
"""

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import faults  # noqa: E402
from faults import World  # noqa: E402
from network import SKIPPED, Machine, Network, available  # noqa: E402

PORT = 7733
KEPT_ALIVE = 15  # seconds within which a peer that has vanished is noticed
STORMS = 5       # processes, each with as many
SESSIONS = 10    # one after the other


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


def blocked_ports_are_named(world: World) -> None:
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


def an_idle_rank_is_cut_off(world: World) -> None:
    """Nothing is under way to it: only keep-alives of the control connection tell, at both ends."""
    ranks = world.job(ranks=3)
    for rank in ranks[:2]:
        rank.tell("sum 3 1000")
        rank.expect("^posted$")
    world.site.machine(4).unplug()
    try:
        for rank in ranks[:2]:
            rank.tell("wait")
        ranks[2].tell("loop 3 1000 1")
        for rank in ranks[:2]:
            rank.expect("^3 peer lost 2 ", patience=KEPT_ALIVE)
        ranks[2].expect(faults.LOST, patience=KEPT_ALIVE)
    finally:
        world.site.machine(4).plug()
    for rank in ranks:
        rank.end()


def sessions_come_and_go(world: World) -> None:
    """In good order and not, with connections that say half a request beside them: who works meanwhile works on."""
    healthy = world.job()
    for rank in healthy:
        rank.tell("loop 7 20000 300")
    machine = world.site.machine(4)
    half_open = []
    for number in range(STORMS):
        rank = faults.Process(machine, [world.rank_program, f"tcp:{world.site.address}", f"storm-{world.jobs}-{number}",
                                        "0", "1", "1000", "10000"])
        rank.expect("^ready$")
        for _ in range(SESSIONS):
            half_open.append(machine.socket(socket.SOCK_STREAM))
            half_open[-1].connect((world.site.network.machine(1).address, PORT))
            half_open[-1].send(b'{"jsonrpc":"2.0","id":1,"method":"node.st')
            rank.tell("sum 1 1000")
            rank.expect("^posted$")
            rank.tell("open")  # in the place of the one before
            rank.expect("^ready$")
        rank.end()  # it is killed
        half_open.pop().close()
    for rank in healthy:
        rank.expect("^looped 300 wrong 0$", patience=120)
        rank.end()
    for connection in half_open:
        connection.close()


faults.CASES += [blocked_ports_are_named, an_idle_rank_is_cut_off, sessions_come_and_go]


def main() -> int:
    if reason := available():
        print(f"skipped: {reason}")
        return SKIPPED
    with Network(4) as network:
        return faults.main(Namespaces(network))


if __name__ == "__main__":
    sys.exit(main())
