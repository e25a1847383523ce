"""Workers on other machines: right sums over the network, and every fault between node and workers ends as
docs/errors.md says, in time, with the right culprit, and with nothing left at the node.

What machines are (namespaces, a virtual machine's) is a Site's business.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol

PATIENCE = 40  # seconds; more than any promise for the deadlines used here
REPETITIONS = {"fast": 1, "default": 1, "soak": 50}
LOST = r"(node|peer) lost"


class Failed(Exception):
    """What was said or left that should not have been."""


class Machine(Protocol):
    """What can be done on a machine, and to it."""

    def popen(self, command: list, **more) -> subprocess.Popen: ...
    def unplug(self) -> None: ...
    def plug(self) -> None: ...
    def drop_from(self, other: "Machine") -> None: ...
    def hear_from(self, other: "Machine") -> None: ...
    def lose(self, share: float) -> None: ...
    def kill_started(self) -> None: ...


class Site(Protocol):
    """Four machines: the node's is 1."""

    address: str          # of the node, for control: host:port
    config: str           # of tallyd
    node_flags: list      # likewise
    elements: int         # of sums that take a good part of a second
    loss: float           # share of packets with which sums still end

    def machine(self, index: int) -> Machine: ...
    def held(self, pid: int) -> dict[str, int]: ...  # by this process, besides descriptors


class Process:
    """A program on a machine, told and asked by lines."""

    def __init__(self, machine: Machine, command: list, **more) -> None:
        self.name = " ".join(command[:1] + command[2:6])
        more.setdefault("stderr", subprocess.DEVNULL)
        self.child = machine.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
        self.pending = b""

    def tell(self, line: str) -> None:
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def line(self, patience: float = PATIENCE) -> str:
        until = time.monotonic() + patience
        while b"\n" not in self.pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                raise Failed(f"no line from {self.name} within {patience} s")
            got = os.read(self.child.stdout.fileno(), 4096)
            if not got:
                raise Failed(f"{self.name} has ended ({self.child.wait(5)})")
            self.pending += got
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode()

    def expect(self, pattern: str, patience: float = PATIENCE) -> str:
        line = self.line(patience)
        if not re.search(pattern, line):
            raise Failed(f"{self.name} said {line!r}, expected {pattern!r}")
        return line

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()


class World:
    """A node on machine 1, ranks on the others."""

    def __init__(self, site: Site, programs: list, directory: str) -> None:
        self.site, self.directory = site, directory
        self.tallyd, self.rank_program, self.tallyctl = programs
        self.local = f"unix:{directory}/node.sock"
        self.jobs = 0
        self.node = self.start_node()
        for rank in self.job():  # what is made once, for the first session
            rank.tell("close")
            rank.expect("^closed$")
            rank.end()
        self.at_start = self.footprint()

    def start_node(self) -> Process:
        config = Path(self.directory, "tallyd.toml")
        config.write_text(self.site.config)
        node = Process(self.site.machine(1),
                       [self.tallyd, "--config", str(config), "--listen", self.local, "--listen-tcp", f"tcp:{self.site.address}",
                        "--shards", "2", "--log-level", "info", "--ready-fd", "1", *self.site.node_flags],
                       stderr=open(f"{self.directory}/log", "ab"))
        node.expect("ready")
        return node

    def restart_node(self) -> None:
        self.node.signal(signal.SIGTERM)
        self.node.child.wait(PATIENCE)
        self.node.end()
        self.node = self.start_node()

    def job(self, ranks: int = 2, elements: int = 1 << 20) -> list:
        self.jobs += 1
        started = [Process(self.site.machine(2 + rank),
                           [self.rank_program, f"tcp:{self.site.address}", f"job-{self.jobs}", str(rank), str(ranks),
                            str(elements), "10000"])
                   for rank in range(ranks)]
        for rank in started:
            rank.expect("^ready$")
        return started

    def footprint(self) -> dict[str, int]:
        """What the node holds, by kind."""
        pid = self.node.child.pid
        return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), **self.site.held(pid)}

    def left(self) -> dict[str, str]:
        """Of each kind more than at the start."""
        return {kind: f"{count} of {self.at_start[kind]}" for kind, count in self.footprint().items()
                if count > self.at_start[kind]}

    def settled(self) -> None:
        """The node serves a new job, and nothing is left of those before."""
        ranks = self.job()
        for rank in ranks:
            rank.tell("loop 1 100000 3")
        for rank in ranks:
            rank.expect("^looped 3 wrong 0$")
        for rank in ranks:
            rank.end()
        until = time.monotonic() + PATIENCE
        while (left := self.left()) or self.formings():
            if time.monotonic() > until:
                raise Failed(f"left at the node: {left}, jobs {self.formings()}")
            time.sleep(0.05)

    def formings(self) -> list:
        done = subprocess.run([self.tallyctl, "--address", self.local, "--json", "jobs"], text=True,
                              capture_output=True, check=True, timeout=PATIENCE)
        return json.loads(done.stdout)


def sums_are_right(world: World) -> None:
    for count in (1, 1000, 65_537, 1_000_003):
        ranks = world.job(ranks=3)
        for rank in ranks:
            rank.tell(f"loop 5 {count} 3")
        for rank in ranks:
            rank.expect("^looped 3 wrong 0$")
        for rank in ranks:
            rank.tell(f"sum 6 {count} out")
            rank.expect("^posted$")
            rank.tell("wait")
        for rank in ranks:
            rank.expect("^6 ok wrong 0$")
            rank.tell("close")
            rank.end()


def under_way(world: World, deadline_ms: int = 3000) -> list:
    """Two ranks in the middle of long sums."""
    ranks = world.job()
    for rank in ranks:
        rank.tell(f"deadline {deadline_ms}")
        rank.expect("^deadline$")
        rank.tell(f"loop 3 {world.site.elements} 100000")
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
    world.node.signal(signal.SIGKILL)
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
    """The node no longer hears rank 1, which still hears the node; then the other way round."""
    node, other = world.site.machine(1), world.site.machine(3)
    for deaf, unheard in ((node, other), (other, node)):
        ranks = under_way(world)
        deaf.drop_from(unheard)
        try:
            ranks[0].expect(r"^3 (peer lost|deadline) 1 ")
            ranks[1].expect(LOST)
        finally:
            deaf.hear_from(unheard)
        for rank in ranks:
            rank.end()


def a_rank_is_stopped(world: World) -> None:
    ranks = under_way(world)
    ranks[1].signal(signal.SIGSTOP)
    ranks[0].expect(r"^3 (peer lost|deadline) 1 ")
    ranks[1].signal(signal.SIGCONT)
    ranks[1].expect(LOST + "|deadline|cancelled")
    for rank in ranks:
        rank.end()


def the_node_is_stopped(world: World) -> None:
    """And finds when it goes on that the memory is the ranks' own again."""
    ranks = under_way(world)
    world.node.signal(signal.SIGSTOP)
    for rank in ranks:
        rank.expect(LOST)
        rank.tell("mark")
        rank.expect("^marked$")
    world.node.signal(signal.SIGCONT)
    time.sleep(1)  # it goes on with what it was about to read and write
    for rank in ranks:
        rank.tell("marks")
        rank.expect("^marks wrong 0$")
        rank.end()


def packets_are_lost(world: World) -> None:
    world.site.machine(2).lose(world.site.loss)
    try:
        ranks = world.job()
        for rank in ranks:
            rank.tell(f"loop 4 {world.site.elements // 3} 10")
        for rank in ranks:
            rank.expect("^looped 10 wrong 0$", patience=120)
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
            print("the node's status:", world.node.child.poll())
            print("the node's log ends:", Path(world.directory, "log").read_text()[-1000:], sep="\n")
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
                for index in (1, 2, 3, 4):
                    site.machine(index).kill_started()
                world = World(site, programs, directory)
        world.node.signal(signal.SIGTERM)
        if (status := world.node.child.wait(PATIENCE)) != 0:
            print(f"FAILED: the node ended with {status}")
            failed += 1
    return 1 if failed else 0
