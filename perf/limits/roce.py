#!/usr/bin/env python3
"""What transport roce costs beside loops over the same port of DPDK that have no connections, and beside TCP, in turns.

A figure is the node's cycles of the time-stamp counter for each byte that it reads or writes. Only polls that found
something count, so waiting costs nothing. Over TCP the figure is the thread's processor time. Figures are medians over
the rounds; a share is the median of the rounds' shares.

memif, vhost    READs and WRITEs of four connections, at two MTUs; and a shard's reduce and broadcast with four ranks,
                which are READs and WRITEs with the protocol; beside
                  stateless  a loop with nothing but the driver, the ICRC and the sum
                  rxonly     frames are received and freed;  txonly: the same frames are sent again
                  icrc       the ICRC alone, of memory in the caches
                "copied": the transport copies what it reads, in place of summing it out of the frames
connections     READs of 64 connections beside those of 4, and beside those of 4 with as many bytes in flight
tcp             the same READs and WRITEs over loopback, by transport fabric and by plain sockets
veth            over a pair of interfaces without offloads: net_af_packet and net_af_xdp beside plain sockets; needs root

usage: roce.py [--build DIR] [--rounds N] [--realtime] [--bars] [--json FILE] [memif|vhost|connections|tcp|veth ...]
With --bars the exit status is 1 where a figure misses a bar. With --realtime the two threads, which poll all the time,
go before all other work of their cores.
"""

import argparse
import contextlib
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "perf"), str(ROOT / "tests/net")]
import bar  # noqa: E402
import namespaces  # noqa: E402

BAR_OF_STATELESS = 0.7    # of the goodput of the loop without connections, at least
BAR_OF_TCP = 2.0          # cycles of transport fabric, divided by those of roce, at least
BAR_OF_CONNECTIONS = 0.9  # of the goodput of 4 connections, at least
MTUS = (1024, 4096)
VETH_MTU = 1024
NO_FRAMES = 0  # kept until their bytes are summed: READs are copied to landing memory
TURNS = 5  # of two programs, which cannot take turns within a run
TIMEOUT = 300
READS = ["read", "read-stateless", "rxonly"]
WRITES = ["write", "write-stateless", "txonly"]
SHARD = ["shard-reduce", "shard-broadcast"]
FEW, MANY, FEW_DEEP = "read:4x2", "read:64x1", "read:4x16"
SECTIONS = ["memif", "vhost", "connections", "tcp", "veth"]
OFFLOADS = ["tx", "rx", "tso", "gso", "gro", "sg"]


class Measured:
    """The rounds of one run or of several, by variant."""

    def __init__(self, rows: list[dict]):
        self.rounds: dict[str, list[dict]] = {}
        for row in rows:
            self.rounds.setdefault(row["variant"], []).append(row)

    def costs(self, variant: str, both_ends: bool = False) -> list[float]:
        """Cycles for each byte, of each round."""
        costs = []
        for row in self.rounds[variant]:
            if row["bytes"] == 0:
                raise SystemExit(f"{variant} moved nothing in a round: other work has the cores (see --realtime)")
            worker = row["worker_cycles"] / max(row["worker_bytes"], 1)
            costs.append(row["cycles"] / row["bytes"] + (worker if both_ends else 0))
        return costs

    def cost(self, variant: str, both_ends: bool = False) -> float:
        return statistics.median(self.costs(variant, both_ends))

    def rate(self, variant: str) -> float:
        """GB/s of a core that never waits."""
        return statistics.median(row["bytes"] / row["cycles"] * row["all_cycles"] / row["seconds"] / 1e9
                                 for row in self.rounds[variant])

    def share(self, variant: str, beside: str) -> float:
        """The goodput of a core, as a share of the other's."""
        return statistics.median(theirs / ours for ours, theirs in zip(self.costs(variant), self.costs(beside)))

    def share_of_mix(self, variant: str) -> float:
        """The goodput of a core, as a share of the loops' without connections that read and write as many bytes."""
        shares = []
        for mine, cost, read, write in zip(self.rounds[variant], self.costs(variant), self.costs("read-stateless"),
                                           self.costs("write-stateless")):
            bytes_of_both = mine["received"] + mine["sent"]
            shares.append((read * mine["received"] + write * mine["sent"]) / bytes_of_both / cost)
        return statistics.median(shares)

    def repairs(self, variant: str) -> int:
        return sum(row.get("repairs", 0) for row in self.rounds[variant])


def joined(parts: list[Measured]) -> Measured:
    return Measured([row for part in parts for rows in part.rounds.values() for row in rows])


class Bench:
    def __init__(self, arguments: argparse.Namespace):
        self.build = arguments.build
        self.rounds = arguments.rounds
        self.before = ["chrt", "--fifo", "1"] if arguments.realtime else []

    def with_rounds(self, rounds: int) -> "Bench":
        other = copy.copy(self)
        other.rounds = rounds
        return other

    def run(self, words: list, namespace: str = "") -> Measured:
        command = [*(["ip", "netns", "exec", namespace] if namespace else []), *self.before, *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}")
        return Measured([json.loads(line) for line in done.stdout.splitlines()])

    def ports(self, node: str, workers: str, mtu: int | str, variants: list[str], namespace: str = "") -> Measured:
        return self.run([self.build / "perf/roce_port", node, workers, mtu, self.rounds, *variants], namespace)

    def memif(self, mtu: int | str, variants: list[str]) -> Measured:
        common = f"id=1,socket-abstract=yes,socket=tally-roce-{os.getpid()}"
        return self.ports(f"net_memif0,role=server,mac=02:09:00:00:00:01,{common}",
                          f"net_memif1,role=client,mac=02:09:00:00:00:02,{common}", mtu, variants)

    def vhost(self, mtu: int | str, variants: list[str]) -> Measured:
        with tempfile.TemporaryDirectory(prefix="tally-roce-") as folder:
            return self.ports(f"net_vhost0,iface={folder}/wire.sock,queues=1",
                              f"net_virtio_user0,path={folder}/wire.sock,queues=1,mac=02:09:00:00:00:02", mtu, variants)

    def tcp(self, variants: list[str], where: list[str], namespace: str = "") -> Measured:
        return self.run([self.build / "perf/tcp_node", self.rounds, *where, *variants], namespace)


@contextlib.contextmanager
def veth(spaces: int) -> Iterator[list[str]]:
    """A pair of interfaces, tally0 (10.9.0.1) and tally1 (10.9.0.2), in one namespace or in one for each."""
    namespaces.remove(namespaces.left_over())
    prefix = namespaces.new_prefix()
    names = [f"{prefix}{i}" for i in range(spaces)]
    try:
        for name in names:
            namespaces.call("ip", "netns", "add", name)
        namespaces.call("ip", "-n", names[0], "link", "add", "tally0", "type", "veth", "peer", "name", "tally1",
                        "netns", names[-1])
        for i, name in enumerate([names[0], names[-1]]):
            if spaces == 2:
                namespaces.call("ip", "-n", name, "addr", "add", f"10.9.0.{i + 1}/24", "dev", f"tally{i}")
            namespaces.call("ip", "-n", name, "link", "set", f"tally{i}", "up")
            off = [word for offload in OFFLOADS for word in (offload, "off")]
            namespaces.call("ip", "netns", "exec", name, "ethtool", "-K", f"tally{i}", *off)
        yield names
    finally:
        namespaces.remove(namespaces.names_with(prefix))


def row(what: str, measured: Measured, variant: str, note: str = "", both_ends: bool = False) -> None:
    both = f"; both ends {measured.cost(variant, True):.2f}" if both_ends else ""
    repairs = f"; {measured.repairs(variant)} repairs" if measured.repairs(variant) else ""
    cost, rate = measured.cost(variant), measured.rate(variant)
    print(f"{what:<28} {variant:<16} {cost:>12.3f} {rate:>8.2f}  {note}{both}{repairs}", flush=True)


def beside_stateless(bench: Bench, port: str, kept: dict) -> dict[str, float]:
    figures = {}
    for mtu in MTUS:
        measured = kept[f"{port} {mtu}"] = getattr(bench, port)(mtu, [*READS, *WRITES, *SHARD, "icrc"])
        copied = kept[f"{port} {mtu} copied"] = getattr(bench, port)(f"{mtu},{NO_FRAMES}", ["read", "read-stateless"])
        what = f"net_{port}, MTU {mtu}"
        for whole, stateless, bare in (READS, WRITES):
            share = measured.share(whole, stateless)
            icrc = measured.cost("icrc") / measured.cost(whole)
            row(what, measured, whole, f"{share:.2f} of {stateless}; the ICRC is {icrc:.2f} of it")
            row(what, measured, stateless)
            row(what, measured, bare)
            figures[f"{what}: goodput of {whole}, as a share of {stateless}"] = share
        row(f"{what}, copied", copied, "read", f"{copied.share('read', 'read-stateless'):.2f} of read-stateless then")
        for whole in SHARD:
            row(what, measured, whole, f"{measured.share_of_mix(whole):.2f} of the loops with as many READs and WRITEs")
        row(what, measured, "icrc")
    return figures


def beside_few(bench: Bench, kept: dict) -> dict[str, float]:
    figures = {}
    for mtu in MTUS:
        measured = kept[f"connections {mtu}"] = bench.memif(mtu, [FEW, MANY, FEW_DEEP])
        what = f"net_memif, MTU {mtu}"
        share = measured.share(MANY, FEW)
        row(what, measured, FEW)
        row(what, measured, MANY, f"{share:.2f} of {FEW}, {measured.share(MANY, FEW_DEEP):.2f} of {FEW_DEEP}")
        row(what, measured, FEW_DEEP)
        figures[f"{what}: goodput of 64 connections, as a share of that of 4"] = share
    return figures


def beside_tcp(bench: Bench, kept: dict) -> dict[str, float]:
    bench = bench.with_rounds(max(bench.rounds // TURNS, 1))
    works = ("read", "write")
    variants = [f"{over}-{work}" for over in ("fabric", "sockets") for work in works]
    turns = [(bench.memif(4096, list(works)), bench.tcp(variants, [])) for _ in range(TURNS)]
    ours = kept["tcp: memif"] = joined([one for one, _ in turns])
    theirs = kept["tcp"] = joined([one for _, one in turns])
    figures = {}
    for work in works:
        ratio = statistics.median(tcp.cost(f"fabric-{work}") / memif.cost(work) for memif, tcp in turns)
        row("net_memif, MTU 4096", ours, work, f"{ratio:.2f} times fewer cycles than fabric")
        for over in ("fabric", "sockets"):
            row("TCP over loopback", theirs, f"{over}-{work}", both_ends=True)
        figures[f"cycles of transport fabric's {work}s over those of roce over net_memif"] = ratio
    return figures


def beside_sockets(bench: Bench, kept: dict) -> None:
    if os.geteuid() != 0:
        print("veth: skipped, because network namespaces need root")
        return
    # The loop without connections sends frames of two buffers, which net_af_xdp cannot.
    drivers = {"net_af_packet": ["read-stateless", "write-stateless"], "net_af_xdp": ["read-stateless"]}
    with veth(1) as (space,):
        for driver, stateless in drivers.items():
            kept[f"veth: {driver}"] = bench.ports(f"{driver}0,iface=tally0", f"{driver}1,iface=tally1", VETH_MTU,
                                                  ["read", "write", *stateless], space)
    with veth(2) as (node, workers):
        theirs = kept["veth: sockets"] = bench.tcp(["sockets-read", "sockets-write"], ["10.9.0.1", workers], node)
    for work in ("read", "write"):
        for driver, stateless in drivers.items():
            ours, beside = kept[f"veth: {driver}"], f"{work}-stateless"
            row(f"{driver}, MTU {VETH_MTU}", ours, work,
                f"{ours.share(work, beside):.2f} of {beside}" if beside in stateless else "", both_ends=True)
        row("TCP over the same, MTU 1500", theirs, f"sockets-{work}", both_ends=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--realtime", action="store_true", help="before all other work, by chrt; needs root")
    parser.add_argument("--bars", action="store_true", help="exit with 1 where a figure misses a bar")
    parser.add_argument("--json", type=Path)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS) + " [all of them]")
    arguments = parser.parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}: choose from {', '.join(SECTIONS)}")
    sections = arguments.sections or SECTIONS
    bench = Bench(arguments)
    kept: dict[str, Measured] = {}
    stateless, tcp, connections = {}, {}, {}
    print(f"{'':<28} {'':<16} {'cycles/byte':>12} {'GB/s':>8}")
    for port in ("memif", "vhost"):
        if port in sections:
            stateless |= beside_stateless(bench, port, kept)
    if "connections" in sections:
        connections = beside_few(bench, kept)
    if "tcp" in sections:
        tcp = beside_tcp(bench, kept)
    if "veth" in sections:
        beside_sockets(bench, kept)
    if arguments.json:
        arguments.json.write_text(json.dumps({what: one.rounds for what, one in kept.items()}, indent=1) + "\n")
    if not arguments.bars:
        return 0
    return max(bar.status(BAR_OF_STATELESS, stateless), bar.status(BAR_OF_CONNECTIONS, connections),
               bar.status(BAR_OF_TCP, tcp))


if __name__ == "__main__":
    sys.exit(main())
