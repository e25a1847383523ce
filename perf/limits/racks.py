#!/usr/bin/env python3
"""Two-level trees beside stars, on racks whose uplinks are the bottleneck, and the ratio that the links' loads predict.

Each of R racks has W workers, on machines of their own (network namespaces) with a node each; all cables and the racks'
uplinks are limited in both directions. Stars: one at each machine, of equal weight. No other weights are better: each star
sends over each uplink what the workers on its far side have, whichever machine it is at. Two levels: the nodes of a rack sum
what its workers have, and one sum of a rack crosses. With --chains a third plan has the same loads in trees that are deeper:
the machines of a rack pass their sums on from one to the next. All plans are files; `tallyctl plan check` predicts their times by
the goodput of plain sockets, measured in the same run, and a coordinator that is given them obeys. tally-perf, which asks it
for the links, has to predict the same. Medians of rounds, checked bit by bit. Needs root.

usage: racks.py [--build DIR] [--racks N] [--workers N] [--rate 60mbit] [--uplink 60mbit] [--size 16M] [--rounds N]
                [--shards N] [--chains] [--chunk BYTES] [--window N] [--json FILE] [--plans DIR]
--chunk and --window: of the plans, see docs/planning.md.
"""

import json
import sys
import tempfile
from pathlib import Path

from cluster import (Cluster, bits_of, busy, bytes_of, cluster_of, keep, limit_racks, parse, parser, row_of, seconds_of,
                     tallyctl)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/net"))
from network import Network  # noqa: E402

UNIT = 65536  # what the weights of a class sum to
ROOT = -1
SAME = 1e-3  # how far two computations of one time may be apart
ELEMENT = "i32"  # its sums are the same in any order, so that they can be checked whatever the trees


class Racks:
    """The network as plans know it: the workers of rack 0, those of rack 1, ..., a switch for each rack, the core."""

    def __init__(self, racks: int, workers: int, nic: float, uplink: float, pieces: dict):
        self.racks, self.workers, self.nic, self.uplink, self.pieces = racks, workers, nic, uplink, pieces

    @property
    def machines(self) -> int:
        return self.racks * self.workers

    def stars(self) -> list[list[int]]:
        """Parents of the machines, for each tree."""
        return [[ROOT if i == root else root for i in range(self.machines)] for root in range(self.machines)]

    def two_levels(self, chains: bool = False) -> list[list[int]]:
        """For the I-th machines of all racks: they sum their racks', and each of them is once the root. In chains each has what
        the machine after it has, and the last is the one before the head."""
        trees = []
        for place in range(self.workers):
            heads = [rack * self.workers + place for rack in range(self.racks)]
            for root in heads:
                up = [heads[i // self.workers] if not chains else i // self.workers * self.workers + (i - 1) % self.workers
                      for i in range(self.machines)]
                for head in heads:
                    up[head] = ROOT if head == root else root
                trees.append(up)
        return trees

    def plan(self, trees: list[list[int]]) -> dict:
        core = self.machines + self.racks
        links = [(i, self.machines + i // self.workers, self.nic) for i in range(self.machines)]
        links += [(self.machines + rack, core, self.uplink) for rack in range(self.racks)]
        nodes = [{"id": i, "role": "worker", "addr": f"m{i + 1}", "rack": i // self.workers, "in": self.nic, "out": self.nic}
                 for i in range(self.machines)]
        nodes += [{"id": self.machines + i, "role": "switch"} for i in range(self.racks + 1)]
        weights = [UNIT // len(trees) + (i < UNIT % len(trees)) for i in range(len(trees))]
        return {"fmt": "gsplan/1", "epoch": 1, "method": "by hand", "objective": "allreduce", "nodes": nodes,
                "links": [list(link) for a, b, speed in links for link in ((a, b, speed), (b, a, speed))],
                "domains": [{"name": "all", "workers": list(range(self.machines)), "classes": [
                    {"max_bytes": None, **self.pieces,
                     "trees": [{"w": weight, "up": up} for weight, up in zip(weights, trees)]}]}]}


def by_plan(arguments, cluster: Cluster, racks: Racks, name: str, trees: list[list[int]]) -> dict:
    """Predicted, set and measured."""
    file = Path(arguments.plans or cluster.directory, f"{name.replace(' ', '-')}.json")
    file.write_text(json.dumps(racks.plan(trees), indent=1))
    checked = json.loads(tallyctl(arguments.build, "plan", "check", file, "--bytes", bytes_of(arguments.size),
                                  "--json"))["domains"][0]["classes"][0]
    tallyctl(arguments.build, "--address", cluster.local(1), "plan", "set", file)
    before = busy()
    workers = [(machine, f"m{machine.index}") for machine in cluster.network.machines]
    row = row_of(arguments.build, cluster.address, workers, arguments.size, arguments.rounds, cluster.directory,
                     ELEMENT)
    after = busy()
    promised, loads = row["predicted_us"] * 1e-6, checked["predicted"]["seconds"]
    if abs(promised / loads - 1) > SAME:
        raise SystemExit(f"{name}: tally-perf predicts {promised:.4f} s, tallyctl plan check {loads:.4f} s")
    return {"plan": name, **seconds_of(row), "predicted": loads, "binds": checked["binds"],
            "cpu": (after[0] - before[0]) / (after[1] - before[1])}


def measure(arguments) -> list[dict]:
    with Network(arguments.racks * arguments.workers, racks=arguments.racks) as network, \
            tempfile.TemporaryDirectory(prefix="tally-racks-") as place:
        within, uplink = limit_racks(network, arguments)
        pieces = {"chunk": arguments.chunk, **({"window": arguments.window} if arguments.window else {})}
        racks = Racks(arguments.racks, arguments.workers, within, uplink, pieces)
        plans = [("stars", racks.stars()), ("two levels", racks.two_levels())]
        if arguments.chains:
            plans.append(("chains", racks.two_levels(chains=True)))
        with cluster_of(network, arguments, place, range(1, racks.machines + 1), [within] * racks.machines) as cluster:
            return [{**by_plan(arguments, cluster, racks, name, trees), "goodput_share": within / (bits_of(arguments.rate) / 8)}
                    for name, trees in plans]


def main() -> None:
    options = parser(__doc__.splitlines()[0], workers=3, rate="60mbit")
    options.add_argument("--racks", type=int, default=2, help="each of so many workers")
    options.add_argument("--uplink", default="60mbit", help="of every rack")
    options.add_argument("--chains", action="store_true", help="also trees that are deeper")
    options.add_argument("--chunk", type=int, default=262144, help="bytes, of the plans")
    options.add_argument("--window", type=int, help="of the plans; left out: nodes choose")
    options.add_argument("--plans", type=Path, help="a folder to leave the two plans in")
    arguments = parse(options)
    rows = measure(arguments)
    print(f"{'plan':>10} {'seconds':>8} {'min':>7} {'max':>7} {'loads':>7} {'ratio':>6} {'cpu':>5}  binds")
    for row in rows:
        print(f"{row['plan']:>10} {row['seconds']:>8.3f} {row['seconds_min']:>7.3f} {row['seconds_max']:>7.3f} "
              f"{row['predicted']:>7.3f} {row['seconds'] / row['predicted']:>6.3f} {row['cpu']:>5.2f}  {row['binds']}")
    stars, levels = rows[:2]
    measured, promised = stars["seconds"] / levels["seconds"], stars["predicted"] / levels["predicted"]
    print(f"two levels are {measured:.3f} times as fast as stars; the loads say {promised:.3f}: {measured / promised:.3f}")
    keep(rows, arguments.json)


if __name__ == "__main__":
    main()
