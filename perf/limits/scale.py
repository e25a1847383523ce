#!/usr/bin/env python3
"""What a large job needs before it moves a byte: memory, descriptors and threads of nodes, coordinator and ranks, the
time to form, and the CPU when idle.

Starts N nodes on this machine, which form a cluster, and opens one job of R ranks, each with a session at every node:
R x N connections. Says what that took for each rank at a node and for each node at a rank, and from that what 1024
ranks at 128 nodes take: the lines marked "computed" are products, the others were measured. Two runs cover both
directions: many ranks at few nodes, and few ranks at many nodes.

usage: scale.py [--build DIR] [--ranks R] [--nodes N] [--shards S] [--transport fabric|shm] [--processes P]
                [--seconds T] [--json FILE]
"""

import argparse
import ctypes
import json
import os
import resource
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from running_node import Process, RunningNode, default_build, free_port  # noqa: E402
from sessions import memory_of, open_all  # noqa: E402

FULL_RANKS, FULL_NODES = 1024, 128
JOB = "scale"
OPENING = 600  # seconds that all sessions may take
SETTLING = 1  # seconds after which what was to be done has been done


def raise_descriptor_limit() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Usage:
    """Of a process, now."""

    def __init__(self, pid: int):
        tasks = [task for task in Path(f"/proc/{pid}/task").iterdir()]
        self.bytes = memory_of(pid)
        self.descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        self.threads = len(tasks)
        self.cpu_s = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        self.sleeps = sum(int(line.split()[1]) for task in tasks for line in (task / "status").read_text().splitlines()
                          if line.startswith("voluntary_ctxt_switches"))


class Ranks(Process):
    """A process that opens some of the job's ranks, and then does nothing until its end."""

    def __init__(self, options: argparse.Namespace, address: str, ranks: range):
        super().__init__([sys.executable, __file__, "--build", options.build, "--ranks", options.ranks, "--transport",
                          options.transport, "--open", f"{ranks.start}:{ranks.stop}", "--address", address])
        self.before: Usage | None = None

    def ready(self) -> None:
        """It has loaded what it needs."""
        self.expect("^ready$")
        self.before = Usage(self.pid)


def open_ranks(options: argparse.Namespace) -> int:
    """In a process of its own."""
    raise_descriptor_limit()
    library = ctypes.CDLL(str(options.build / "client/libtally.so"))
    first, last = map(int, options.open.split(":"))
    print("ready", flush=True)
    sys.stdin.readline()
    sessions = open_all(library, options.address, options.transport, options.ranks, range(first, last), JOB)
    print("opened", flush=True)
    sys.stdin.read()
    for session in sessions:
        library.tally_close(session)
    return 0


def start_nodes(options: argparse.Namespace, stack: ExitStack) -> tuple[list[RunningNode], str]:
    """The first is the coordinator; where ranks reach it."""
    nodes: list[RunningNode] = []
    tcp = ""
    for number in range(options.nodes):
        flags = ["--shards", str(options.shards), "--shards-per-job", str(options.shards), "--verbs", "off",
                 "--hugepages", "off", "--cluster-name", f"n{number}",
                 "--cluster-host", "here" if options.transport == "shm" else f"host{number}",
                 "--cluster", nodes[0].address if nodes else "{address}"]
        if options.transport != "shm":
            own = f"tcp:127.0.0.1:{free_port()}"
            flags += ["--listen-tcp", own]
            tcp = tcp or own
        nodes.append(stack.enter_context(RunningNode(options.build, {}, flags)))
    nodes[0].wait_until(lambda: len(nodes[0].ask("nodes")) == options.nodes)
    return nodes, tcp or nodes[0].address


def idle(groups: dict[str, list[int]], seconds: float) -> dict[str, tuple[float, float]]:
    """Of a process of each group: its share of a core, and how often in a second one of its threads wakes up."""
    before = {pid: Usage(pid) for pids in groups.values() for pid in pids}
    clock = time.monotonic()
    time.sleep(seconds)
    after, passed = {pid: Usage(pid) for pid in before}, time.monotonic() - clock
    return {name: tuple(sum(getattr(after[pid], what) - getattr(before[pid], what) for pid in pids) / len(pids) / passed
                        for what in ("cpu_s", "sleeps"))
            for name, pids in groups.items()}


def measure(options: argparse.Namespace) -> dict:
    raise_descriptor_limit()
    os.environ["TALLY_HOST"] = "here"
    with ExitStack() as stack:
        nodes, address = start_nodes(options, stack)
        shares = [range(options.ranks * i // options.processes, options.ranks * (i + 1) // options.processes)
                  for i in range(options.processes)]
        workers = [stack.enter_context(Ranks(options, address, share)) for share in shares if len(share) > 0]
        for worker in workers:
            worker.ready()
        node_pids, rank_pids = [node.pid for node in nodes], [worker.pid for worker in workers]
        empty = [Usage(pid) for pid in node_pids]
        began = time.monotonic()
        for worker in workers:
            worker.send("open")
        for worker in workers:
            worker.expect("^opened$", OPENING)
        seconds = time.monotonic() - began
        full = [Usage(pid) for pid in node_pids]
        grown = [(Usage(worker.pid), worker.before) for worker in workers]
        time.sleep(SETTLING)
        # The coordinator is a node too: what it has more than the others is its own.
        others = range(1, len(nodes)) if len(nodes) > 1 else range(1)

        def at_a_node(what: str) -> float:
            return sum(getattr(full[i], what) - getattr(empty[i], what) for i in others) / len(others) / options.ranks

        def at_a_rank(what: str) -> float:
            return sum(getattr(after, what) - getattr(before, what) for after, before in grown) / options.ranks

        result = {
            "transport": options.transport, "ranks": options.ranks, "nodes": options.nodes, "shards": options.shards,
            "processes": len(workers), "connections": options.ranks * options.nodes,
            "form_s": seconds,
            "node_cpu_ms_per_rank": 1e3 * at_a_node("cpu_s"),
            "node_bytes": sum(one.bytes for one in empty) / len(empty),
            "node_bytes_per_rank": at_a_node("bytes"),
            "node_descriptors_per_rank": at_a_node("descriptors"),
            # Pages of other things come and go: less than nothing is nothing.
            "coordinator_bytes_per_rank": max(0.0, (full[0].bytes - empty[0].bytes) / options.ranks - at_a_node("bytes")),
            "rank_bytes_per_node": at_a_rank("bytes") / options.nodes,
            "rank_descriptors_per_node": at_a_rank("descriptors") / options.nodes,
            "rank_threads": at_a_rank("threads"),
            "rank_cpu_ms_per_node": 1e3 * at_a_rank("cpu_s") / options.nodes,
        }
        groups = {"node": [node_pids[i] for i in others], "coordinator": node_pids[:1], "rank": rank_pids}
        for name, (share, wakes) in idle(groups, options.seconds).items():
            per = options.ranks / len(workers) if name == "rank" else 1
            result[f"{name}_idle_share"], result[f"{name}_idle_wakes_per_s"] = share / per, wakes / per
        return result


def lines(result: dict) -> list[str]:
    mib = 2**20
    at_node = result["node_bytes"] + FULL_RANKS * result["node_bytes_per_rank"]
    return [
        f"{result['ranks']} ranks in {result['processes']} processes, {result['nodes']} nodes of {result['shards']} "
        f"shards, transport {result['transport']}: {result['connections']} sessions on this machine",
        f"measured: {result['form_s']:.2f} s to form; CPU for a session: {result['node_cpu_ms_per_rank']:.2f} ms of the "
        f"node, {result['rank_cpu_ms_per_node']:.2f} ms of the rank",
        f"measured: a node has {result['node_bytes'] / mib:.1f} MiB, and for each rank "
        f"{result['node_bytes_per_rank'] / 1024:.1f} KiB and {result['node_descriptors_per_rank']:.1f} descriptors",
        f"measured: the coordinator has {result['coordinator_bytes_per_rank'] / 1024:.1f} KiB more for each rank",
        f"measured: a rank has {result['rank_threads']:.1f} threads, and for each node "
        f"{result['rank_bytes_per_node'] / 1024:.1f} KiB and {result['rank_descriptors_per_node']:.1f} descriptors",
        *(f"measured: idle, a {name} takes {100 * result[f'{name}_idle_share']:.3f} % of a core and wakes up "
          f"{result[f'{name}_idle_wakes_per_s']:.1f} times a second" for name in ("node", "coordinator", "rank")),
        f"computed for {FULL_RANKS} ranks at {FULL_NODES} nodes: {at_node / mib:.0f} MiB and "
        f"{FULL_RANKS * result['node_descriptors_per_rank']:.0f} descriptors at a node; "
        f"{FULL_NODES * result['rank_bytes_per_node'] / mib:.1f} MiB and "
        f"{FULL_NODES * result['rank_descriptors_per_node']:.0f} descriptors at a rank; "
        f"{FULL_RANKS * result['coordinator_bytes_per_rank'] / mib:.1f} MiB more at the coordinator; "
        f"{FULL_RANKS * result['node_cpu_ms_per_rank'] / 1e3:.1f} s of each node's CPU to form, "
        f"{FULL_NODES * result['rank_cpu_ms_per_node'] / 1e3:.1f} s of each rank's",
    ]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--shards", type=int, default=1, help="of each node, all of which serve the job")
    parser.add_argument("--transport", choices=["fabric", "shm"], default="fabric")
    parser.add_argument("--processes", type=int, default=4, help="that the ranks are in")
    parser.add_argument("--seconds", type=float, default=10, help="of the idle figures")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--open", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    if options.open:
        return open_ranks(options)
    result = measure(options)
    print("\n".join(lines(result)))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
