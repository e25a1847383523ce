#!/usr/bin/env python3
"""What TLS costs: time to open a session, memory of a session at the node, and goodput, beside a node without it.

Two nodes on loopback, one with a secret and one with --insecure, take turns in every round. Of each round: sessions of a
job over `fabric` are opened one after the other, with a token or without; then tally-perf measures an all-reduce.

usage: security.py [--build DIR] [--sessions N] [--rounds N] [--json FILE]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from ctypes import CDLL
from pathlib import Path

from running_node import Process, Tallyd, default_build, free_port
from sessions import memory_of, open_all

SIZES = ["--min-bytes", "4K", "--max-bytes", "4M", "--factor", "1024", "--iters", "300"]


class Side:
    """A node, and how clients reach it."""

    def __init__(self, build: Path, place: Path, secured: bool):
        self.build = build
        self.tcp = f"tcp:127.0.0.1:{free_port()}"
        self.environment = {"TALLY_INSECURE": "1", "TALLY_TOKEN": ""}
        flags = ["--listen-tcp", self.tcp, "--shards", "1", "--verbs", "off", "--log-level", "error"]
        if secured:
            secret = place / "secret"
            tallyctl = build / "control/tallyctl"
            subprocess.run([tallyctl, "token", "secret", secret], check=True, stdout=subprocess.DEVNULL)
            token = subprocess.run([tallyctl, "token", "make", "--secret-file", secret, "--job", "*"], check=True, text=True,
                                   capture_output=True).stdout.strip()
            self.environment = {"TALLY_INSECURE": "0", "TALLY_TOKEN": token}
            flags += ["--secret-file", secret]
        else:
            flags.append("--insecure")
        self.node = Tallyd(build / "control/tallyd", *flags, folder=place, name=f"secured-{secured}", serves_all=False)
        self.ms: list[float] = []
        self.kib: list[float] = []
        self.rows: list[list[float]] = []

    def open(self, library: CDLL, count: int) -> None:
        os.environ.update(self.environment)
        for session in open_all(library, self.tcp, "fabric", 1):  # what the first session of a job makes for all
            library.tally_close(session)
        before, began = memory_of(self.node.pid), time.monotonic()
        sessions = open_all(library, self.tcp, "fabric", count)
        self.ms.append(1e3 * (time.monotonic() - began) / count)
        self.kib.append((memory_of(self.node.pid) - before) / 1024 / count)
        for session in sessions:
            library.tally_close(session)

    def reduce(self) -> None:
        run = [Process([self.build / "perf/tally-perf", "allreduce", "--address", self.tcp, "--transport", "fabric", "--rank",
                        str(rank), "--ranks", "2", "--job", "goodput", "--quiet", *SIZES, *(["--json", "-"] if rank == 0 else [])],
                       environment=self.environment) for rank in (0, 1)]
        for process in run:
            process.finish(timeout=float("inf"))
        self.rows.append([row["time_us_p50"] for row in json.loads(run[0].stdout)["rows"]])
        for process in run:
            process.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    library = CDLL(str(arguments.build / "client/libtally.so"))
    with tempfile.TemporaryDirectory(prefix="tally-security-") as place:
        sides = [Side(arguments.build, Path(place), secured) for secured in (True, False)]
        for number in range(arguments.rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                side.open(library, arguments.sessions)
                side.reduce()
        for side in sides:
            side.node.end()
    tls, clear = sides
    first = {  # memory that a node has once it keeps, so the first round counts
        "ms to open a session": (statistics.median(tls.ms), statistics.median(clear.ms)),
        "KiB of a session at the node": (tls.kib[0], clear.kib[0]),
        **{f"us of an all-reduce of {size}": (statistics.median(row[i] for row in tls.rows),
                                              statistics.median(row[i] for row in clear.rows))
           for i, size in enumerate(("4 KiB", "4 MiB"))}}
    for name, (one, other) in first.items():
        print(f"{name:>32}: {one:10.2f} with TLS, {other:10.2f} without, ratio {one / other if other else float('inf'):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(first, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
