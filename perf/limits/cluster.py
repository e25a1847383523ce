#!/usr/bin/env python3
"""All-reduce over many nodes beside the closed form of the plan: BytePS (OSDI '20) where all NICs are alike, and its
generalisation to uneven ones.

Each of N workers has a machine with a node of its own, and K machines have a node alone; machines are network
namespaces whose cables are limited in both directions. B is what a plain socket gets through such a cable, measured
in the same run. For each K: the time of an all-reduce of M bytes, medians of rounds; what the form says, which is
2n(n-1)M/((n^2+kn-2k)B) for equal NICs; and the ratio. For uneven NICs also the time with the weights of even ones,
as multiple of the first. Needs root.

usage: cluster.py [--build DIR] [--workers N] [--helpers K,K,...] [--rate 100mbit] [--rates R,R,...] [--size 16M]
                  [--rounds N] [--shards N] [--json FILE]
--rates: one for each worker's machine, then for each helper's: uneven NICs, for the largest K.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from running_node import Process, Tallyd, default_build

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/net"))
from network import Machine, Network, available  # noqa: E402

PORT, PERF_PORT, PROBE_PORT = 7733, 7800, 7900
BURST, QUEUE = 32_000, 1_000_000  # bytes
PROBE_SECONDS = 3
TIMEOUT = 600
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
RATES = {"k": 1e3, "m": 1e6, "g": 1e9}


def bytes_of(size: str) -> int:
    return int(size[:-1]) * UNITS[size[-1]]


def bits_of(rate: str) -> float:
    return float(rate[:-4]) * RATES[rate[-4]]


def parser(title: str, workers: int, rate: str, shards: int = 1) -> argparse.ArgumentParser:
    """With what measurements on limited cables have in common."""
    made = argparse.ArgumentParser(description=title)
    made.add_argument("--build", type=Path, default=default_build())
    made.add_argument("--workers", type=int, default=workers)
    made.add_argument("--rate", default=rate, help="of every machine's cable")
    made.add_argument("--size", default="16M")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--shards", type=int, default=shards)
    made.add_argument("--json", type=Path)
    return made


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = made.parse_args()
    if reason := available():
        raise SystemExit(f"no network can be made here: {reason}")
    return arguments


def keep(rows: list[dict], file: Path | None) -> None:
    if file:
        file.write_text(json.dumps(rows, indent=1) + "\n")


def seconds_of(row: dict) -> dict:
    """What tally-perf's row says of the time."""
    return {"seconds": row["time_us_p50"] / 1e6, "seconds_min": row["time_us_min"] / 1e6,
            "seconds_max": row["time_us_max"] / 1e6}


def goodput(sender: Machine, receiver: Machine) -> float:
    """Bytes per second through plain sockets, each way, both at a time."""
    import socket
    pairs = []
    for number, (here, there) in enumerate(((sender, receiver), (receiver, sender))):
        listener = there.socket(socket.SOCK_STREAM)
        listener.bind((there.address, PROBE_PORT + number))
        listener.listen(1)
        out = here.socket(socket.SOCK_STREAM)
        out.connect((there.address, PROBE_PORT + number))
        pairs.append((out, listener.accept()[0]))
        listener.close()
    received = [0, 0]
    end = threading.Event()

    def send(sock) -> None:
        chunk = bytes(1 << 16)
        while not end.is_set():
            sock.sendall(chunk)
        sock.close()

    def receive(number: int, sock) -> None:
        while got := sock.recv(1 << 16):
            received[number] += len(got)
        sock.close()

    threads = [threading.Thread(target=send, args=(out,)) for out, _ in pairs]
    threads += [threading.Thread(target=receive, args=(i, sock)) for i, (_, sock) in enumerate(pairs)]
    for thread in threads:
        thread.start()
    time.sleep(1)  # the burst and the queues are full
    began, before = time.monotonic(), list(received)
    time.sleep(PROBE_SECONDS)
    seconds, after = time.monotonic() - began, list(received)
    end.set()
    for thread in threads:
        thread.join()
    return min(b - a for a, b in zip(before, after)) / seconds


def tallyctl(build: Path, *words, timeout: float = 60, run=subprocess.run) -> str:
    done = run([build / "control/tallyctl", *map(str, words)], text=True, capture_output=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise SystemExit(f"tallyctl {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def limit_racks(network: Network, arguments) -> tuple[float, float]:
    """Limits all cables to --rate, and the racks' uplinks to --uplink. Returns the goodput of both, the same share of the rate."""
    for machine in network.machines:
        machine.limit(arguments.rate, BURST, QUEUE)
    # One connection of BBR gets 8% more or less from one measurement to the next.
    within = statistics.median(goodput(network.machine(1), network.machine(2)) for _ in range(5))
    for rack in range(arguments.racks):
        network.switch.limit_uplink(rack, arguments.uplink, BURST, QUEUE)
    return within, within * bits_of(arguments.uplink) / bits_of(arguments.rate)


def predicted(workers: list[float], helpers: list[float], size: float) -> float:
    """Seconds; of NICs in bytes per second. One form for equal and for uneven ones."""
    n = len(workers)
    if n == 1:
        return 0.0
    together = sum(workers) + (1 - 2 / n) * sum(helpers)
    return size * max(1 / min(workers), 2 * (n - 1) / together)


def row_of(build: Path, address: str, workers: list[tuple[Machine, str]], size: str, rounds: int, directory: str,
           element: str = "f32", kind: str = "allreduce") -> dict:
    """tally-perf's row of a collective; a rank on each of the workers' machines, by the name of its host."""
    out = Path(directory, "row.json")
    first = workers[0][0].address
    runs = []
    for rank, (machine, host) in enumerate(workers):
        command = [build / "perf/tally-perf", kind, "--address", address, "--rank", rank]
        if rank == 0:
            command += ["--serve", f"{first}:{PERF_PORT}", "--ranks", len(workers), "--min-bytes", size, "--max-bytes", size,
                        "--type", element, "--iters", rounds, "--warmup", 1, "--check", "--json", out, "--timeout", 300]
        else:
            command += ["--join", f"{first}:{PERF_PORT}"]
        runs.append(Process(command, environment={"TALLY_HOST": host}, popen=machine.popen))
    for run in runs:
        run.finish(timeout=TIMEOUT)
        run.end()
    document = json.loads(out.read_text())
    if document["wrong"] != 0:
        raise SystemExit(f"{document['wrong']} elements are wrong")
    return document["rows"][0]


@contextlib.contextmanager
def running(nodes: list[Tallyd]) -> Iterator[None]:
    """As soon as they are ready; ends them, whatever happens."""
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(node)
        for node in nodes:
            node.ready()
        yield


class Cluster:
    """Nodes on all machines, that meet at the first one's; see cluster_of(). workers: the machines' indexes."""

    def __init__(self, network: Network, build: Path, directory: str, workers: Collection[int], shards: int, speeds: list[float]):
        self.network, self.build, self.directory = network, build, directory
        self.nodes = []
        for machine, speed in zip(network.machines, speeds):
            role = "worker" if machine.index in workers else "helper"
            self.nodes.append(Tallyd(
                build / "control/tallyd", "--listen-tcp", f"tcp:{machine.address}:{PORT}", "--verbs", "off", "--shards", shards,
                "--cluster", self.address, "--cluster-name", f"m{machine.index}", "--cluster-host", f"m{machine.index}",
                "--cluster-role", role, "--cluster-speed", int(speed // 4096 * 4096), "--log-level", "error", folder=directory,
                name=f"m{machine.index}", wait=False, popen=machine.popen))

    @property
    def address(self) -> str:
        return f"tcp:{self.network.machine(1).address}:{PORT}"

    def local(self, index: int) -> str:
        return f"unix:{self.directory}/m{index}.sock"

    def wait_for_members(self) -> None:
        for _ in range(200):
            done = subprocess.run([self.build / "control/tallyctl", "--address", self.local(1), "--json", "nodes"],
                                  text=True, capture_output=True, timeout=20, check=False)
            if done.returncode == 0 and len(json.loads(done.stdout)) == len(self.nodes):
                return
            time.sleep(0.1)
        raise SystemExit(f"not all nodes have joined: {done.stdout} {done.stderr}")


@contextlib.contextmanager
def cluster_of(network: Network, arguments, directory: str, workers: Collection[int], speeds: list[float]) -> Iterator[Cluster]:
    """Of nodes that say that they are as fast as that."""
    cluster = Cluster(network, arguments.build, directory, workers, arguments.shards, speeds)
    with running(cluster.nodes):
        cluster.wait_for_members()
        yield cluster


def busy() -> tuple[float, float]:
    """Seconds of all processors: at work, and in all."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def by_cluster(arguments, network: Network, place: str, speeds: list[float]) -> dict:
    workers = [(machine, f"m{machine.index}") for machine in network.machines[:arguments.workers]]
    with cluster_of(network, arguments, place, range(1, arguments.workers + 1), speeds) as cluster:
        return row_of(arguments.build, cluster.address, workers, arguments.size, arguments.rounds, place)


def measure(arguments, helpers: int, rates: list[str]) -> dict:
    size = bytes_of(arguments.size)
    with Network(arguments.workers + helpers) as network, tempfile.TemporaryDirectory(prefix="tally-cluster-") as place:
        for machine, rate in zip(network.machines, rates):
            machine.limit(rate, BURST, QUEUE)
        share = goodput(network.machine(1), network.machine(2)) / (min(map(bits_of, rates[:2])) / 8)
        speeds = [share * bits_of(rate) / 8 for rate in rates]
        before = busy()
        row = by_cluster(arguments, network, place, speeds)
        after = busy()
        even = None
        if len(set(rates)) > 1:
            mean = statistics.mean(speeds)
            even = by_cluster(arguments, network, place, [mean] * len(speeds))["time_us_p50"] / row["time_us_p50"]
    form = predicted(speeds[:arguments.workers], speeds[arguments.workers:], size)
    seconds = seconds_of(row)
    return {"helpers": helpers, "bytes": size, "rates": rates, "goodput_share": share, **seconds, "predicted": form,
            "ratio": seconds["seconds"] / form, "even_weights": even,
            "cpu": (after[0] - before[0]) / (after[1] - before[1])}


def main() -> None:
    options = parser(__doc__.splitlines()[0], workers=4, rate="100mbit")
    options.add_argument("--helpers", default="0,1,2,3,4")
    options.add_argument("--rates", help="one for each machine, for the largest number of helpers")
    arguments = parse(options)
    if arguments.workers < 2:
        options.error("--workers: at least 2: one alone sends nothing")
    counts = [int(count) for count in arguments.helpers.split(",")]
    cases = [(count, [arguments.rate] * (arguments.workers + count)) for count in counts]
    if arguments.rates:
        rates = arguments.rates.split(",")
        cases = [(len(rates) - arguments.workers, rates)]
    rows = []
    print(f"{'helpers':>8} {'seconds':>8} {'min':>7} {'max':>7} {'form':>7} {'ratio':>6} {'B/rate':>7} {'cpu':>5} {'even':>6}")
    for count, rates in cases:
        row = measure(arguments, count, rates)
        rows.append(row)
        print(f"{count:>8} {row['seconds']:>8.3f} {row['seconds_min']:>7.3f} {row['seconds_max']:>7.3f} "
              f"{row['predicted']:>7.3f} {row['ratio']:>6.3f} {row['goodput_share']:>7.3f} {row['cpu']:>5.2f} "
              + (f"{row['even_weights']:>6.2f}" if row["even_weights"] else ""), flush=True)
    keep(rows, arguments.json)


if __name__ == "__main__":
    main()
