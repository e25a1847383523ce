"""Workers on other machines: right sums over the network, and every fault between node and workers ends as
docs/errors.md says, in time, with the right culprit, and with nothing left at the node.

What machines are (namespaces, a virtual machine's) is a Site's business.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import TIMEOUT, Failed, Process, Tallyd, end_all  # noqa: E402

REPETITIONS = {"fast": 1, "default": 1, "soak": 50}
LOST = r"(node|peer) lost"


class Machine(Protocol):
    """What can be done on a machine, and to it."""

    def popen(self, command: list, **more) -> subprocess.Popen: ...
    def unplug(self) -> None: ...
    def plug(self) -> None: ...
    def drop_from(self, other: "Machine") -> None: ...
    def accept_from(self, other: "Machine") -> None: ...
    def lose(self, share: float) -> None: ...


class Site(Protocol):
    """Four machines: the node's is 1."""

    address: str          # of the node, for control: host:port
    config: str           # of tallyd
    node_flags: list      # likewise
    elements: int         # of sums that take a good part of a second
    loss: float           # share of packets with which sums still end

    def machine(self, index: int) -> Machine: ...
    def held(self, pid: int) -> dict[str, int]: ...  # by this process, besides descriptors


class World:
    """A node on machine 1, ranks on the others."""

    def __init__(self, site: Site, programs: list, directory: str) -> None:
        self.site, self.directory = site, directory
        self.tallyd, self.rank_program, self.tallyctl = programs
        self.jobs = 0
        self.node = self.start_node()
        for rank in self.job():  # what is made once, for the first session
            rank.send("close")
            rank.expect("^closed$")
            rank.end()
        self.at_start = self.footprint()

    def start_node(self) -> Tallyd:
        return Tallyd(self.tallyd, "--listen-tcp", f"tcp:{self.site.address}", "--shards", "2", "--log-level", "info",
                      *self.site.node_flags, folder=self.directory, config=self.site.config,
                      popen=self.site.machine(1).popen)

    def restart_node(self) -> None:
        self.node.stop()
        self.node = self.start_node()

    def start_rank(self, machine: Machine, job: str, rank: int, ranks: int, elements: int) -> Process:
        return Process([self.rank_program, f"tcp:{self.site.address}", job, rank, ranks, elements, 10000],
                       popen=machine.popen)

    def job(self, ranks: int = 2, elements: int = 1 << 20) -> list:
        self.jobs += 1
        started = [self.start_rank(self.site.machine(2 + rank), f"job-{self.jobs}", rank, ranks, elements)
                   for rank in range(ranks)]
        for rank in started:
            rank.expect("^ready$")
        return started

    def footprint(self) -> dict[str, int]:
        """What the node holds, by kind."""
        pid = self.node.pid
        return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), **self.site.held(pid)}

    def left(self) -> dict[str, str]:
        """Of each kind more than at the start."""
        return {kind: f"{count} of {self.at_start[kind]}" for kind, count in self.footprint().items()
                if count > self.at_start[kind]}

    def settled(self) -> None:
        """The node serves a new job, and nothing is left of those before."""
        ranks = self.job()
        for rank in ranks:
            rank.send("loop 1 100000 3")
        for rank in ranks:
            rank.expect("^looped 3 wrong 0$")
        for rank in ranks:
            rank.end()
        until = time.monotonic() + TIMEOUT
        while (left := self.left()) or self.formings():
            if time.monotonic() > until:
                raise Failed(f"left at the node: {left}, jobs {self.formings()}")
            time.sleep(0.05)

    def formings(self) -> list:
        done = subprocess.run([self.tallyctl, "--address", self.node.address, "--json", "jobs"], text=True,
                              capture_output=True, check=True, timeout=TIMEOUT)
        return json.loads(done.stdout)


def sums_are_right(world: World) -> None:
    for count in (1, 1000, 65_537, 1_000_003):
        ranks = world.job(ranks=3)
        for rank in ranks:
            rank.send(f"loop 5 {count} 3")
        for rank in ranks:
            rank.expect("^looped 3 wrong 0$")
        for rank in ranks:
            rank.send(f"sum 6 {count} out")
            rank.expect("^posted$")
            rank.send("wait")
        for rank in ranks:
            rank.expect("^6 ok wrong 0$")
            rank.send("close")
            rank.end()


def under_way(world: World, deadline_ms: int = 3000) -> list:
    """Two ranks in the middle of long sums."""
    ranks = world.job()
    for rank in ranks:
        rank.send(f"deadline {deadline_ms}")
        rank.expect("^deadline$")
        rank.send(f"loop 3 {world.site.elements} 100000")
    time.sleep(0.4)
    return ranks


def a_rank_is_killed(world: World) -> None:
    ranks = under_way(world)
    ranks[1].signal(signal.SIGKILL)
    ranks[0].expect(r"^3 peer lost 1 .*rank 1")
    ranks[0].end()
    ranks[1].end()


def the_node_is_killed(world: World) -> None:
    ranks = under_way(world)
    world.node.end()
    for rank in ranks:
        rank.expect(LOST)
        rank.end()
    world.node = world.start_node()


def a_cable_is_pulled(world: World) -> None:
    ranks = under_way(world)
    world.site.machine(3).unplug()
    try:
        ranks[0].expect(r"^3 (peer lost|deadline) 1 ")
        ranks[1].expect(LOST)
    finally:
        world.site.machine(3).plug()
    for rank in ranks:
        rank.end()


def one_way_is_lost(world: World) -> None:
    """Packets of rank 1 do not reach the node, while the node's reach rank 1; then the other way round."""
    node, other = world.site.machine(1), world.site.machine(3)
    for receiver, sender in ((node, other), (other, node)):
        ranks = under_way(world)
        receiver.drop_from(sender)
        try:
            ranks[0].expect(r"^3 (peer lost|deadline) 1 ")
            ranks[1].expect(LOST)
        finally:
            receiver.accept_from(sender)
        for rank in ranks:
            rank.end()


def a_rank_is_stopped(world: World) -> None:
    ranks = under_way(world)
    ranks[1].pause()
    ranks[0].expect(r"^3 (peer lost|deadline) 1 ")
    ranks[1].resume()
    ranks[1].expect(LOST + "|deadline|cancelled")
    for rank in ranks:
        rank.end()


def the_node_is_stopped(world: World) -> None:
    """And finds when it goes on that the memory is the ranks' own again."""
    ranks = under_way(world)
    world.node.pause()
    for rank in ranks:
        rank.expect(LOST)
        rank.send("mark")
        rank.expect("^marked$")
    world.node.resume()
    time.sleep(1)  # it goes on with what it was about to read and write
    for rank in ranks:
        rank.send("marks")
        rank.expect("^marks wrong 0$")
        rank.end()


def packets_are_lost(world: World) -> None:
    world.site.machine(2).lose(world.site.loss)
    try:
        ranks = world.job()
        for rank in ranks:
            rank.send(f"loop 4 {world.site.elements // 3} 10")
        for rank in ranks:
            rank.expect("^looped 10 wrong 0$", timeout=120)
            rank.end()
    finally:
        world.site.machine(2).lose(0)


CASES = [sums_are_right, a_rank_is_killed, the_node_is_killed, a_cable_is_pulled, one_way_is_lost,
         a_rank_is_stopped, the_node_is_stopped, packets_are_lost]


def run(world: World, case, repetitions: int) -> int:
    began = time.monotonic()
    for repetition in range(repetitions):
        try:
            case(world)
            world.settled()
        except (Failed, subprocess.SubprocessError, OSError) as failure:
            print(f"FAILED {case.__name__}, repetition {repetition + 1}: {failure}", flush=True)
            print("the node's status:", world.node.poll())
            print("the node's log ends:", world.node.output()[-1000:], sep="\n")
            return 1
    print(f"ok {case.__name__} ({repetitions} times, {time.monotonic() - began:.1f} s)", flush=True)
    return 0


def main(site: Site) -> int:
    """usage: ... TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak"""
    programs, wanted = sys.argv[1:4], sys.argv[4:]
    repetitions = REPETITIONS[os.environ.get("TALLY_TEST_TIER", "default")]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tally-net-") as directory:
        world = World(site, programs, directory)
        for case in CASES:
            if wanted and case.__name__ not in wanted:
                continue
            if run(world, case, repetitions) != 0:
                failed += 1
                end_all()
                world = World(site, programs, directory)
        try:
            world.node.stop()
        except Failed as failure:
            print(f"FAILED: {failure}")
            failed += 1
    return 1 if failed else 0
