"""Trees for any network: "Near-Optimal Topology-Adaptive Parameter Synchronization in Distributed DNN Training", INFOCOM
'21. The paper lets each pair of workers have a bandwidth of its own. Machines on a switch share their NICs instead. There
is a table for each of the two, because gains differ by an order of magnitude."""

import random
import statistics

import overlays
from programs import Programs
from table import Table

UNIT = 1e9  # bytes per second of the speed 1; figures are ratios, so that it does not count
FEW, MANY = 512, 2048  # chunks of a simulated operation
OVERLAYS = (("1 to 10", overlays.uniform, 8), ("1 to 10", overlays.uniform, 16), ("lognormal", overlays.lognormal, 8))
# Racks, workers and helpers of each, speed of the uplink.
RACKS = ((2, 4, 0, 2.0), (2, 4, 2, 2.0), (2, 4, 1, 1.0), (2, 4, 4, 1.0), (2, 4, 0, 0.5), (8, 8, 2, 2.0))


def gains(programs: Programs, speeds: list[list[float]], seed: int) -> dict[str, float]:
    """By how much longer an all-reduce takes than over the planned trees."""
    trees = programs.plan(overlays.network(speeds, UNIT)).tau * UNIT
    order = list(range(len(speeds)))
    random.Random(seed).shuffle(order)
    found = {"ring": overlays.ring(speeds, order), "2-opt ring": overlays.ring(speeds, overlays.improved(speeds, order)),
             "PS": overlays.parameter_server(speeds), "colocated PS": overlays.colocated_servers(speeds),
             "one tree": overlays.single_tree(speeds), "RS+AG": overlays.two_phases(speeds)}
    return {name: seconds / trees for name, seconds in found.items()}


def pairs(programs: Programs, instances: int = 30) -> Table:
    table = Table("INFOCOM '21's setting: each pair of workers has a bandwidth of its own",
                  f"How many times as long as over the planned trees; means of {instances} random networks.",
                  ["speeds", "n", "ring", "2-opt ring", "PS", "colocated PS", "one tree", "RS+AG", "most, ring"])
    for name, draw, n in OVERLAYS:
        found = [gains(programs, draw(n, seed), seed) for seed in range(instances)]
        table.rows.append([name, n, *(statistics.mean(gain[column] for gain in found) for column in table.columns[2:-1]),
                           max(gain["ring"] for gain in found)])
    table.notes += ["The paper states gains of up to 18.3, in its own networks.",
                    "A ring in any order has n of the n (n - 1) / 2 links, so its slowest link is slow. RS+AG is the bound of a "
                    "reduce-scatter and an all-gather one after the other.",
                    "The order of the ring is random, and the PS is at the best worker."]
    return table


def racks_network(racks: int, workers: int, helpers: int, uplink: float) -> dict:
    roles = [("w", "worker", workers), ("h", "helper", helpers)]
    return {"fmt": "tally-network/1", "racks": [{"name": f"r{rack}", "speed": uplink * UNIT} for rack in range(racks)],
            "machines": [{"name": f"{letter}{rack}.{number}", "role": role, "rack": f"r{rack}", "nic": UNIT}
                         for letter, role, count in roles for rack in range(racks) for number in range(count)]}


def two_phases_of_racks(racks: int, workers: int, uplink: float) -> float:
    """The bound of a reduce-scatter and an all-gather one after the other: all but a worker, or all but a rack, send."""
    n = racks * workers
    return max(2 * (n - 1) / n, 2 * (racks - 1) / (racks * uplink))


def shared(programs: Programs) -> Table:
    table = Table("The same trees where machines share NICs and uplinks",
                  "Times in M / NIC. The last two columns: how many times as long as over the planned trees.",
                  ["racks", "workers", "helpers", "uplink", "BytePS", "ring", "RS+AG", "trees", f"{FEW} chunks", f"{MANY} chunks",
                   "BytePS/trees", "ring/trees"])
    for racks, workers, helpers, uplink in RACKS:
        plan = programs.plan(racks_network(racks, workers, helpers, uplink))
        found = {name: loads * UNIT for name, (loads, _) in plan.baselines(["byteps", "ring"], FEW).items()}
        trees = plan.tau * UNIT
        table.rows.append([racks, workers, helpers, uplink, found["byteps"], found["ring"],
                           two_phases_of_racks(racks, workers, uplink), trees, plan.simulated(FEW) * UNIT,
                           plan.simulated(MANY) * UNIT, found["byteps"] / trees, found["ring"] / trees])
    table.notes += ["workers, helpers: of each rack. uplink: of a rack, in NICs. BytePS has the shares of its formula, which "
                    "knows no uplinks. The ring passes rack after rack.",
                    "BytePS, ring and trees are by loads. chunks: the trees by `tally-perf sim`, for operations of so many chunks, "
                    "with ideal rules. Many trees need many chunks.",
                    "The paper has no figures for this setting."]
    return table


def tables(programs: Programs) -> list[Table]:
    return [pairs(programs), shared(programs)]
