#!/usr/bin/env python3
"""Machines with two NICs, each on a network of its own: both carry, in proportion to their speeds; a NIC that is lost
ends the jobs that use it and has no part in those that form later, until it is back.

usage: rails_test.py TALLYD FAULT_RANK TALLYCTL [CASE...]
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from faults import LOST, TIMEOUT, Failed, Process, Tallyd  # noqa: E402
from network import SKIPPED, Machine, Network, available  # noqa: E402

PORT = 7733
ELEMENTS = 1_000_000
ROUNDS = 4
SENT = 4 * ELEMENTS * ROUNDS  # bytes of a rank's contributions


class World:
    """Machines 1 and 4 have nodes when a case starts them; ranks are on 2 and 3."""

    def __init__(self, network: Network, programs: list, directory: str) -> None:
        self.network, self.directory = network, directory
        self.tallyd, self.rank_program, self.tallyctl = programs
        self.jobs = 0
        self.nodes: dict[int, Tallyd] = {}

    def machine(self, index: int) -> Machine:
        return self.network.machine(index)

    def start(self, index: int = 1, rails: str = "", flags: tuple = ()) -> None:
        machine = self.machine(index)
        self.nodes[index] = Tallyd(self.tallyd, "--listen-tcp", f"tcp:*:{PORT}", "--rails", rails or ",".join(machine.addresses),
                                   "--shards", "4", "--verbs", "off", *flags, folder=self.directory, name=f"node{index}",
                                   popen=machine.popen)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.end()
        self.nodes.clear()

    def log(self, index: int = 1) -> str:
        return self.nodes[index].output()

    def ask(self, what: str, index: int = 1):
        done = subprocess.run([self.tallyctl, "--address", self.nodes[index].address, "--json", what], text=True,
                              capture_output=True, check=True, timeout=TIMEOUT)
        return json.loads(done.stdout)

    def wait_until(self, what: str, condition) -> None:
        until = time.monotonic() + TIMEOUT
        while not condition():
            if time.monotonic() > until:
                raise Failed(f"not within {TIMEOUT} s: {what}")
            time.sleep(0.05)

    def wait_for_rails(self, *up: bool) -> None:
        self.wait_until(f"rails up: {up}", lambda: tuple(r["up"] for r in self.ask("status")["rails"]) == up)

    def job(self, ranks: int = 2) -> list:
        """Ranks that know every address of the node."""
        self.jobs += 1
        addresses = ",".join(f"tcp:{address}:{PORT}" for address in self.machine(1).addresses)
        started = [Process([self.rank_program, addresses, f"job-{self.jobs}", rank, ranks, ELEMENTS, 10000],
                           popen=self.machine(2 + rank).popen) for rank in range(ranks)]
        for rank in started:
            rank.expect("^ready$")
        return started

    def under_way(self, deadline_ms: int = 3000) -> list:
        """Two ranks in the middle of long sums."""
        ranks = self.job()
        for rank in ranks:
            rank.send(f"deadline {deadline_ms}")
            rank.expect("^deadline$")
            rank.send(f"loop 3 {ELEMENTS} 100000")
        time.sleep(0.4)
        return ranks

    def carried_by_sums(self) -> list:
        """The share of what rank 0 contributes that each of its NICs carries, in sums that are right."""
        machine = self.machine(2)
        before = [machine.carried(rail) for rail in range(2)]
        ranks = self.job()
        for rank in ranks:
            rank.send(f"loop 1 {ELEMENTS} {ROUNDS}")
        for rank in ranks:
            rank.expect(f"^looped {ROUNDS} wrong 0$")
            rank.send("close")
            rank.expect("^closed$")
            rank.end()
        return [(machine.carried(rail) - before[rail]) / SENT for rail in range(2)]


def expect_shares(carried: list, *shares: float) -> None:
    """Of headers and acknowledgements there is a little more than of bytes."""
    for rail, (got, share) in enumerate(zip(carried, shares)):
        if not share * 0.95 <= got <= share * 1.15 + 0.1:
            raise Failed(f"rail {rail} carried {got:.2f} of the contributions, not {share}")


def both_carry_as_much(world: World) -> None:
    world.start()
    expect_shares(world.carried_by_sums(), 0.5, 0.5)


def each_carries_by_its_speed(world: World) -> None:
    world.start(flags=("--speeds", "3Gbit,1Gbit"))
    expect_shares(world.carried_by_sums(), 0.75, 0.25)


def a_lost_one_is_left_out(world: World) -> None:
    """The second by its interface, the first, by which the ranks ask first, by its cable."""
    node = world.machine(1)
    second = ["ip", "link", "set", "eth1"]
    losses = [(1, lambda: node.run([*second, "down"], check=True), lambda: node.run([*second, "up"], check=True)),
              (0, node.unplug, node.plug)]
    world.start()
    for rail, lose, bring_back in losses:
        # Longer than the network takes to tell: before, one rank may only be known to wait for the other.
        ranks = world.under_way(deadline_ms=30_000)
        lose()
        try:
            for rank in ranks:
                rank.expect(LOST)
                rank.end()
            world.wait_for_rails(*(i != rail for i in range(2)))
            expect_shares(world.carried_by_sums(), *(float(i != rail) for i in range(2)))
        finally:
            bring_back()
        world.wait_for_rails(True, True)
        expect_shares(world.carried_by_sums(), 0.5, 0.5)
    for event in ("rail-lost", "rail-back"):
        if world.log().count(f"event={event}") != len(losses):
            raise Failed(f"{event} is not in the log:\n{world.log()}")


def a_worker_that_loses_one_is_named(world: World) -> None:
    world.start()
    ranks = world.under_way()
    world.machine(3).unplug(1)
    ranks[0].expect(r"^3 (peer lost|deadline) 1 .*rank 1")
    ranks[1].expect(LOST)
    world.machine(3).plug(1)
    for rank in ranks:
        rank.end()
    expect_shares(world.carried_by_sums(), 0.5, 0.5)


def one_that_is_not_there_is_named(world: World) -> None:
    world.start(rails=f"{world.machine(1).addresses[0]},10.99.0.1")
    if "event=rail-left-out address=10.99.0.1" not in world.log():
        raise Failed(f"no warning:\n{world.log()}")
    expect_shares(world.carried_by_sums(), 1, 0)
    world.stop()
    world.start(rails=f"10.99.0.1,{world.machine(1).addresses[1]}")  # which keeps its number
    world.wait_for_rails(False, True)
    expect_shares(world.carried_by_sums(), 0, 1)
    world.stop()
    try:
        world.start(rails="10.99.0.1,10.99.0.2")
    except Failed as failure:
        if "this machine can use none of these addresses" not in str(failure):
            raise
        return
    raise Failed("it started without a NIC")


def members_report_to_their_coordinator(world: World) -> None:
    """Of a helper its own are left out; of a machine with workers that rail of all."""
    coordinators = ",".join(f"tcp:{address}:{PORT}" for address in world.machine(1).addresses)
    for index, role in ((1, "helper"), (2, "worker"), (4, "helper")):
        world.start(index, flags=("--cluster", coordinators, "--cluster-name", f"m{index}", "--cluster-role", role,
                                  "--cluster-host", f"m{index}"))
    def rails_of(name: str) -> list:
        return [[rail["up"] for rail in node["rails"]] for node in world.ask("nodes") if node["name"] == name]
    world.wait_until("three members", lambda: len(world.ask("nodes")) == 3)
    expect_both = world.carried_by_sums()
    if min(expect_both) < 0.2:
        raise Failed(f"not both rails carry: {expect_both}")
    for index, share in ((4, None), (2, 0.0)):
        world.machine(index).unplug(1)
        world.wait_until(f"m{index} has lost a rail", lambda: rails_of(f"m{index}") == [[True, False]])
        carried = world.carried_by_sums()
        if share is not None and carried[1] > 0.1:
            raise Failed(f"a lost rail carries: {carried}")
        world.machine(index).plug(1)
        world.wait_until(f"m{index} has it back", lambda: rails_of(f"m{index}") == [[True, True]])
    if min(world.carried_by_sums()) < 0.2:
        raise Failed("the rail that is back carries nothing")


CASES = [both_carry_as_much, each_carries_by_its_speed, a_lost_one_is_left_out, a_worker_that_loses_one_is_named,
         one_that_is_not_there_is_named, members_report_to_their_coordinator]


def main() -> int:
    if reason := available():
        print(f"skipped: {reason}")
        return SKIPPED
    wanted = sys.argv[4:]
    failed = 0
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        began = time.monotonic()
        with Network(4, rails=2) as network, tempfile.TemporaryDirectory(prefix="tally-rails-") as directory:
            world = World(network, sys.argv[1:4], directory)
            try:
                case(world)
                print(f"ok: {case.__name__}, {time.monotonic() - began:.1f} s", flush=True)
            except Failed as why:
                failed += 1
                print(f"FAILED: {case.__name__}: {why}", flush=True)
            finally:
                with contextlib.suppress(Failed):
                    world.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
