#!/usr/bin/env python3
"""Planned trees beside stars and Gloo's ring, on racks whose uplinks are the bottleneck: measured beside predicted.

Each of R racks has W workers and H CPU servers, on machines of their own (network namespaces) with a node each; all cables
and the racks' uplinks are limited in both directions. B is what a plain socket gets through such a cable, measured in the same
run. Stars are those of BytePS (OSDI '20) with the weights of full bisection. `tallyctl plan make --network` makes the trees of
the network as it is; with --probe also of the network that `tallyctl probe --racks` finds. `tallyctl plan check` predicts the
times, and `tally-perf sim` simulates them with the rules of nodes (the ring: with ideal ones). The ring has the ranks of a
rack beside each other, so that one copy of the bytes crosses each uplink: at best it takes
2(n-1)/n M/B. Medians of rounds, checked bit by bit. At higher rates two cores are full. Needs root.

usage: rack_plans.py [--build DIR] [--racks N] [--workers N] [--helpers N] [--rate 30mbit] [--uplink 30mbit] [--size 16M]
                     [--rounds N] [--shards N] [--probe] [--rs-ag] [--json FILE] [--plans DIR]
--workers and --helpers: of each rack. --rs-ag: also reduce-scatters and all-gathers, by the plan for these, by the trees and
by the stars.
"""

import copy
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, bytes_of, cluster_of, keep, limit_racks, parse, parser, row_of, seconds_of, tallyctl
from racks import ELEMENT, ROOT, UNIT

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "compare"), str(Path(__file__).resolve().parents[2] / "tests/net")]
from network import Machine, Network  # noqa: E402
from systems import Gloo, Unavailable  # noqa: E402

ABSENT = -2  # a machine that is not in the tree
PROBE_S = 600
SIMULATION_S = 600


class Racks:
    """Machines 1, 2, ... of the network: the workers of rack 1, its CPU servers, the workers of rack 2, ..."""

    def __init__(self, racks: int, workers: int, helpers: int, nic: float, uplink: float):
        self.racks, self.each, self.helpers_of_each = racks, workers + helpers, helpers
        self.nic, self.uplink = nic, uplink
        machines = range(1, racks * self.each + 1)
        self.workers = [index for index in machines if (index - 1) % self.each < workers]
        self.helpers = [index for index in machines if index not in self.workers]

    def document(self) -> dict:
        """The file of the network."""
        machines = [{"name": f"m{index}", "role": "worker" if index in self.workers else "helper",
                     "rack": f"rack{(index - 1) // self.each + 1}", "nic": self.nic}
                    for index in sorted(self.workers + self.helpers)]
        return {"fmt": "tally-network/1", "machines": machines,
                "racks": [{"name": f"rack{rack + 1}", "speed": self.uplink} for rack in range(self.racks)]}

    def stars(self, plan: dict) -> dict:
        """A plan of the same network: a star at each machine, with the weights of full bisection."""
        n, k = len(self.workers), len(self.helpers)
        whole = n * n + k * n - 2 * k
        shares = {"worker": (n - k) / whole, "helper": 2 * (n - 1) / whole}
        made = copy.deepcopy(plan)
        machines = [node for node in made["nodes"] if node["role"] != "switch"]
        trees = [{"w": round(UNIT * shares[root["role"]]), "up": [
            ROOT if node is root else root["id"] if node["role"] == "worker" else ABSENT for node in machines]}
            for root in machines if shares[root["role"]] > 0]
        trees[-1]["w"] += UNIT - sum(tree["w"] for tree in trees)
        domain = made["domains"][0]
        domain.pop("cert", None)
        domain["classes"] = [{"max_bytes": None, "chunk": plan["domains"][0]["classes"][-1]["chunk"], "trees": trees}]
        made["method"] = "star"
        return made


class Bench:
    """A cluster on racks, where plans and the ring are measured."""

    def __init__(self, arguments, network: Network, cluster: Cluster, racks: Racks):
        self.arguments, self.network, self.cluster, self.racks = arguments, network, cluster, racks
        self.folder = Path(arguments.plans or cluster.directory)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.size = bytes_of(arguments.size)

    def machines(self) -> list[Machine]:
        """Of the ranks."""
        return [self.network.machine(index) for index in self.racks.workers]

    def make(self, name: str, network: dict, *flags: str) -> dict:
        """Plans for a network that a file describes."""
        file = self.folder / f"{name}-network.json"
        file.write_text(json.dumps(network, indent=1))
        return json.loads(tallyctl(self.arguments.build, "plan", "make", "--network", file, *flags))

    def probed(self) -> dict:
        """The machines and racks that the cluster finds."""
        file = self.folder / "probed.json"
        tallyctl(self.arguments.build, "--address", self.cluster.local(1), "probe", "--racks", "--no-pairs", "--seconds", 2,
                 "--out", file, timeout=PROBE_S, run=self.network.machine(1).run)
        return json.loads(file.read_text())

    def file_of(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.json"

    def simulated(self, name: str, *flags: str) -> float:
        """Seconds of an operation over the network of a plan."""
        command = [Path(self.arguments.build) / "perf/tally-perf", "sim", "--plan", self.file_of(name), "--bytes", str(self.size),
                   "--order", "fair", "--hop-us", "100", "--json", "-", *flags]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=SIMULATION_S)
        return json.loads(run.stdout)["rows"][0]["seconds"]

    def by_plan(self, name: str, plan: dict) -> dict:
        checked = self.check(name, plan)
        return {"plan": name, **self.seconds(name), "predicted": checked["predicted"]["seconds"],
                "simulated": self.simulated(name, "--rules", "nodes"), "binds": checked["binds"],
                "trees": len(plan["domains"][0]["classes"][-1]["trees"])}

    def check(self, name: str, plan: dict) -> dict:
        """What `plan check` says of the trees for large operations."""
        file = self.file_of(name)
        file.write_text(json.dumps(plan, indent=1))
        return json.loads(tallyctl(self.arguments.build, "plan", "check", file, "--bytes", self.size, "--json")
                          )["domains"][0]["classes"][-1]

    def seconds(self, name: str, kind: str = "allreduce") -> dict:
        """Of a collective, by a plan that was checked."""
        tallyctl(self.arguments.build, "--address", self.cluster.local(1), "plan", "set", self.file_of(name))
        workers = [(machine, f"m{machine.index}") for machine in self.machines()]
        row = row_of(self.arguments.build, self.cluster.address, workers, self.arguments.size, self.arguments.rounds,
                     self.cluster.directory, ELEMENT, kind)
        return seconds_of(row)

    def rs_ag(self, plan: dict) -> list[dict]:
        """Reduce-scatters and all-gathers: by the plan for these, and by those for all-reduces."""
        predicted = self.check("rs-ag", plan)["predicted"]["seconds"]
        return [{"kind": kind, "plan": name, **self.seconds(name, kind), "predicted": predicted if name == "rs-ag" else None}
                for kind in ("reducescatter", "allgather") for name in ("rs-ag", "trees", "stars")]

    def ring(self, gloo: Gloo) -> dict:
        run = gloo.run_at(self.machines(), self.size, self.arguments.rounds, 1)
        if run.wrong:
            raise SystemExit(f"Gloo: {run.wrong} elements are wrong")
        seconds = [time / 1e6 for time in run.times_us]
        n = len(self.racks.workers)
        return {"plan": "ring", "seconds": statistics.median(seconds), "seconds_min": min(seconds), "seconds_max": max(seconds),
                "predicted": 2 * (n - 1) / n * self.size / min(self.racks.nic, self.racks.uplink),
                "simulated": self.simulated("trees", "--no-plan", "--baseline", "ring"), "binds": "", "trees": n}


def measure(arguments, gloo: Gloo) -> list[dict]:
    each = arguments.workers + arguments.helpers
    with Network(arguments.racks * each, racks=arguments.racks) as network, \
            tempfile.TemporaryDirectory(prefix="tally-racks-") as place:
        nic, uplink = limit_racks(network, arguments)
        racks = Racks(arguments.racks, arguments.workers, arguments.helpers, nic, uplink)
        with cluster_of(network, arguments, place, racks.workers, [nic] * len(network.machines)) as cluster:
            bench = Bench(arguments, network, cluster, racks)
            plan = bench.make("trees", racks.document())
            rows = [bench.by_plan("trees", plan), bench.ring(gloo), bench.by_plan("stars", racks.stars(plan))]
            if arguments.probe:
                rows.append(bench.by_plan("probed trees", bench.make("probed", bench.probed())))
            if arguments.rs_ag:
                rows += bench.rs_ag(bench.make("rs-ag", racks.document(), "--objective", "rs-ag"))
    return rows


def print_rs_ag(rows: list[dict]) -> None:
    print(f"{'kind':>13} {'plan':>12} {'seconds':>8} {'min':>7} {'max':>7} {'predicted':>9} {'ratio':>6}")
    for row in rows:
        predicted = row["predicted"]
        ratio = f"{predicted:>9.3f} {row['seconds'] / predicted:>6.3f}" if predicted else ""
        print(f"{row['kind']:>13} {row['plan']:>12} {row['seconds']:>8.3f} {row['seconds_min']:>7.3f} {row['seconds_max']:>7.3f} "
              f"{ratio}")


def main() -> None:
    options = parser(__doc__.splitlines()[0], workers=4, rate="30mbit")
    options.add_argument("--racks", type=int, default=2)
    options.add_argument("--helpers", type=int, default=1, help="CPU servers of each rack")
    options.add_argument("--uplink", default="30mbit", help="of every rack")
    options.add_argument("--probe", action="store_true", help="also the trees of the network that a probe finds: some minutes")
    options.add_argument("--rs-ag", action="store_true", help="also reduce-scatters and all-gathers")
    options.add_argument("--plans", type=Path, help="a folder to leave the files in")
    arguments = parse(options)
    with tempfile.TemporaryDirectory(prefix="tally-gloo-") as scratch:
        try:
            gloo = Gloo(Path(scratch))
        except Unavailable as reason:
            raise SystemExit(str(reason)) from reason
        everything = measure(arguments, gloo)
    rows = [row for row in everything if "kind" not in row]
    print(f"{'plan':>12} {'trees':>5} {'seconds':>8} {'min':>7} {'max':>7} {'predicted':>9} {'ratio':>6} {'simulated':>9} "
          f"{'ratio':>6}  binds")
    for row in rows:
        print(f"{row['plan']:>12} {row['trees']:>5} {row['seconds']:>8.3f} {row['seconds_min']:>7.3f} {row['seconds_max']:>7.3f} "
              f"{row['predicted']:>9.3f} {row['seconds'] / row['predicted']:>6.3f} {row['simulated']:>9.3f} "
              f"{row['seconds'] / row['simulated']:>6.3f}  {row['binds']}")
    trees = rows[0]["seconds"]
    print("times of trees: " + ", ".join(f"{row['plan']} {row['seconds'] / trees:.3f}" for row in rows[1:]))
    if arguments.rs_ag:
        print_rs_ag([row for row in everything if "kind" in row])
    keep(everything, arguments.json)


if __name__ == "__main__":
    main()
