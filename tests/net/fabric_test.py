#!/usr/bin/env python3
"""Transport fabric between network namespaces: the cases of faults.py, and those of the kernel's TCP.

usage: fabric_test.py TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak
"""

import contextlib
import re
import socket
import subprocess
import sys
import time
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
    """A rank has an error, and soon, when only the control port of the node is open."""
    node = re.escape(world.site.network.machine(1).address)
    with only_control_passes(world.site.network):
        for transport in ("fabric", ""):
            machine = world.site.machine(2)
            output = machine.run(["env", f"TALLY_TRANSPORT={transport}", world.rank_program, f"tcp:{world.site.address}",
                                "refused", "0", "1", "1000", "2000"], text=True, capture_output=True,
                               stdin=subprocess.DEVNULL, timeout=faults.TIMEOUT).stdout
            if not re.search(rf"refused .*no connection from {re.escape(machine.address)} to the node's {node}:\d+ .*"
                             "docs/deploy.md", output):
                raise faults.Failed(f"transport {transport!r} with blocked ports: {output!r}")


def an_idle_rank_is_cut_off(world: World) -> None:
    """Nothing is under way to it: only keep-alives of the control connection show it, at both ends."""
    ranks = world.job(ranks=3)
    for rank in ranks[:2]:
        rank.send("sum 3 1000")
        rank.expect("^posted$")
    world.site.machine(4).unplug()
    try:
        for rank in ranks[:2]:
            rank.send("wait")
        ranks[2].send("loop 3 1000 1")
        for rank in ranks[:2]:
            rank.expect("^3 peer lost 2 ", timeout=KEPT_ALIVE)
        ranks[2].expect(faults.LOST, timeout=KEPT_ALIVE)
    finally:
        world.site.machine(4).plug()
    for rank in ranks:
        rank.end()


def sessions_come_and_go(world: World) -> None:
    """In good order and not, beside connections that send half a request: a job that runs goes on."""
    healthy = world.job()
    for rank in healthy:
        rank.send("loop 7 20000 300")
    machine = world.site.machine(4)
    half_open = []
    for number in range(STORMS):
        rank = world.start_rank(machine, f"storm-{world.jobs}-{number}", 0, 1, 1000)
        rank.expect("^ready$")
        for _ in range(SESSIONS):
            half_open.append(machine.socket(socket.SOCK_STREAM))
            half_open[-1].connect((world.site.network.machine(1).address, PORT))
            half_open[-1].send(b'{"jsonrpc":"2.0","id":1,"method":"node.st')
            rank.send("sum 1 1000")
            rank.expect("^posted$")
            rank.send("open")  # in the place of the one before
            rank.expect("^ready$")
        rank.end()  # it is killed
        half_open.pop().close()
    for rank in healthy:
        rank.expect("^looped 300 wrong 0$", timeout=120)
        rank.end()
    for connection in half_open:
        connection.close()


def a_slow_rank_holds_its_own_job_up_alone(world: World) -> None:
    """One job has a rank behind 1 Mbit/s; the other goes on as before."""
    machines = [world.site.machine(index) for index in (2, 4)]
    quick = [world.start_rank(machine, f"quick-{world.jobs}", rank, 2, 1_000_000) for rank, machine in enumerate(machines)]
    for rank in quick:
        rank.expect("^ready$")

    def seconds() -> float:
        began = time.monotonic()
        for rank in quick:
            rank.send("loop 7 250000 20")
        for rank in quick:
            rank.expect("^looped 20 wrong 0$", timeout=120)
        return time.monotonic() - began

    alone = seconds()
    slow = world.job(elements=8_000_000)
    world.site.machine(3).limit("1mbit")
    try:
        for rank in slow:
            rank.send("loop 3 8000000 1")
        time.sleep(1)
        beside = seconds()
    finally:
        world.site.machine(3).limit(None)
    for rank in quick + slow:
        rank.end()
    if beside > 2 * alone + 0.5:
        raise faults.Failed(f"20 sums took {alone:.2f} s alone, {beside:.2f} s beside a slow rank's job")


faults.CASES += [a_slow_rank_holds_its_own_job_up_alone, blocked_ports_are_named, an_idle_rank_is_cut_off,
                 sessions_come_and_go]


def main() -> int:
    if reason := available():
        print(f"skipped: {reason}")
        return SKIPPED
    with Network(4) as network:
        return faults.main(Namespaces(network))


if __name__ == "__main__":
    sys.exit(main())
