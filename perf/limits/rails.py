#!/usr/bin/env python3
"""Two NICs beside one: the same all-reduce, through one cable of a machine and through two.

A node and N workers, each on a machine of its own (a network namespace) with two cables, each on a network of its own
and limited in both directions. The node is given one rail, then two. Medians of rounds, checked bit by bit; the ratio
is what a second NIC brings. B is what a plain socket gets through one cable, measured in the same run. Needs root.

usage: rails.py [--build DIR] [--workers N] [--rate 100mbit] [--size 16M] [--rounds N] [--shards N] [--json FILE]
"""

import sys
import tempfile
from pathlib import Path

from cluster import BURST, PORT, QUEUE, bytes_of, goodput, keep, parse, parser, row_of, running, seconds_of
from running_node import Tallyd

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/net"))
from network import Machine, Network  # noqa: E402

RAILS = 2


def start_node(machine: Machine, arguments, directory: str, rails: int, speed: float) -> Tallyd:
    """With so many of the machine's NICs."""
    return Tallyd(arguments.build / "control/tallyd", "--listen-tcp", f"tcp:{machine.address}:{PORT}", "--rails",
                  ",".join(machine.addresses[:rails]), "--speeds", ",".join([f"{int(speed)}B"] * rails), "--verbs", "off",
                  "--shards", arguments.shards, "--log-level", "error", folder=directory, wait=False, popen=machine.popen)


def measure(arguments) -> list[dict]:
    rows = []
    with Network(1 + arguments.workers, rails=RAILS) as network, \
            tempfile.TemporaryDirectory(prefix="tally-rails-") as directory:
        for machine in network.machines:
            for rail in range(RAILS):
                machine.limit(arguments.rate, BURST, QUEUE, rail)
        plain = goodput(network.machine(1), network.machine(2))
        workers = [(machine, f"m{machine.index}") for machine in network.machines[1:]]
        for rails in range(1, RAILS + 1):
            with running([start_node(network.machine(1), arguments, directory, rails, plain)]):
                row = row_of(arguments.build, f"tcp:{network.machine(1).address}:{PORT}", workers, arguments.size,
                                 arguments.rounds, directory)
            seconds = seconds_of(row)
            # Every byte of every worker goes to the node and comes back.
            rate = bytes_of(arguments.size) * arguments.workers / seconds["seconds"]
            rows.append({"rails": rails, **seconds, "rate": rate, "of_sockets": rate / plain})
    return rows


def main() -> None:
    arguments = parse(parser(__doc__.splitlines()[0], workers=2, rate="100mbit", shards=2))
    rows = measure(arguments)
    print(f"{'NICs':>5} {'seconds':>8} {'min':>7} {'max':>7} {'MB/s':>7} {'of one socket':>14}")
    for row in rows:
        print(f"{row['rails']:>5} {row['seconds']:>8.3f} {row['seconds_min']:>7.3f} {row['seconds_max']:>7.3f} "
              f"{row['rate'] / 1e6:>7.2f} {row['of_sockets']:>14.3f}")
    print(f"two NICs carry {rows[0]['seconds'] / rows[1]['seconds']:.3f} times as much as one")
    keep(rows, arguments.json)


if __name__ == "__main__":
    main()
