#!/usr/bin/env python3
"""A job beside another tenant's slow one: what it keeps of what it has beside the same job when that is quick and idle.

Machines are network namespaces: the node's, and one for each rank. Job A has a rank behind 1 Mbit/s, or one that is
stopped in the middle of its operations, or one whose network carries a byte a second. Job B has two quick ranks, over
TCP, or over shared memory on the node's machine. In turns, round after round: A idle, A slow. The table has the medians
of B's goodput at 16 MiB (slow over idle: more is better) and of its p99 at 4 KiB (less is better).

usage: tenants.py [--build DIR] [--rounds N] [--seconds S] [--case CASE,...] [--transport tcp,shm] [--bar] [--json FILE]
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/net"))
import faults  # noqa: E402
from network import Network, available  # noqa: E402
from running_node import default_build  # noqa: E402

PORT = 7733
SLOW_ELEMENTS = 16 << 20  # of A's operations: more than its slow rank gets done
SETTLE = 1.0              # seconds from when A turns slow until B is measured
GOODPUT_BAR = 0.9
LATENCY_BAR = 2.0


class Site:
    """A node on machine 1; B's ranks on 2 and 3, or on 1; A's on 4 and 5."""

    def __init__(self, network: Network, build: Path, directory: str) -> None:
        self.network, self.build = network, build
        self.remote = f"tcp:{network.machine(1).address}:{PORT}"
        self.jobs = 0
        self.local = faults.Tallyd(build / "control/tallyd", "--listen-tcp", self.remote, "--verbs", "off", "--shards", "1",
                                   "--log-level", "error", folder=directory, popen=network.machine(1).popen).address

    def slow_job(self) -> list[faults.Process]:
        self.jobs += 1
        ranks = [faults.Process([self.build / "tests/fault/fault-rank", self.remote, f"a-{self.jobs}", rank, 2, SLOW_ELEMENTS,
                                 10000], popen=self.network.machine(4 + rank).popen) for rank in (0, 1)]
        for rank in ranks:
            rank.expect("^ready$")
        return ranks

    def measure(self, transport: str, size: str, seconds: float) -> dict:
        """Job B's row."""
        self.jobs += 1
        address = self.remote if transport == "tcp" else self.local
        runs = [faults.Process([self.build / "perf/tally-perf", "allreduce", "--address", address, "--job", f"b-{self.jobs}",
                                "--rank", rank, "--ranks", 2, "--min-bytes", size, "--max-bytes", size, "--duration", seconds,
                                "--quiet", "--json", "-"],
                               popen=self.network.machine(2 + rank if transport == "tcp" else 1).popen) for rank in (0, 1)]
        for run in runs:
            run.finish(timeout=faults.TIMEOUT + seconds)
            run.end()
        return json.loads(runs[0].stdout)["rows"][0]


@contextlib.contextmanager
def idle(site: Site):
    ranks = site.slow_job()
    try:
        yield
    finally:
        for rank in ranks:
            rank.end()


@contextlib.contextmanager
def slow(site: Site, case: str):
    machine = site.network.machine(5)
    ranks = site.slow_job()
    try:
        if case == "1mbit":
            machine.limit("1mbit")
        if case == "trickle":
            machine.limit("8bit", burst=4096, queue=1 << 20)
        for rank in ranks:
            rank.send(f"loop 3 {SLOW_ELEMENTS} 1000")
        if case == "stopped":
            time.sleep(0.3)
            ranks[1].pause()
        time.sleep(SETTLE)
        yield
    finally:
        machine.limit(None)
        for rank in ranks:
            rank.end()


def compare(site: Site, transport: str, case: str, rounds: int, seconds: float) -> dict:
    goodput, latency = [], []
    for _ in range(rounds):
        rows = {}
        for size in ("16M", "4K"):
            with idle(site):
                quiet = site.measure(transport, size, seconds)
            with slow(site, case):
                rows[size] = (quiet, site.measure(transport, size, seconds))
        goodput.append(rows["16M"][0]["time_us_mean"] / rows["16M"][1]["time_us_mean"])
        latency.append(rows["4K"][1]["time_us_p99"] / rows["4K"][0]["time_us_p99"])
    return {"transport": transport, "case": case, "goodput": goodput, "p99": latency}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement; a stopped rank is lost after 4")
    parser.add_argument("--case", default="1mbit,stopped,trickle")
    parser.add_argument("--transport", default="tcp,shm")
    parser.add_argument("--bar", action="store_true", help="exit with 1 where a median misses its bar")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if reason := available():
        raise SystemExit(reason)
    rows = []
    with tempfile.TemporaryDirectory(prefix="tally-tenants-") as directory, Network(5, offload=True) as network:
        site = Site(network, options.build, directory)
        print(f"{'B over':>6} {'A':>8} {'goodput, slow/idle':>19} {'lowest':>7} {'p99, slow/idle':>15} {'highest':>8}")
        for transport in options.transport.split(","):
            for case in options.case.split(","):
                row = compare(site, transport, case, options.rounds, options.seconds)
                rows.append(row)
                print(f"{transport:>6} {case:>8} {statistics.median(row['goodput']):>19.2f} {min(row['goodput']):>7.2f} "
                      f"{statistics.median(row['p99']):>15.2f} {max(row['p99']):>8.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    missed = [row for row in rows if statistics.median(row["goodput"]) < GOODPUT_BAR
              or statistics.median(row["p99"]) > LATENCY_BAR]
    for row in missed:
        print(f"{row['transport']} beside {row['case']} misses a bar: goodput at least {GOODPUT_BAR}, p99 at most "
              f"{LATENCY_BAR}")
    return 1 if options.bar and missed else 0


if __name__ == "__main__":
    sys.exit(main())
