"""BytePS: Jiang et al., "A Unified Architecture for Accelerating Distributed DNN Training in Heterogeneous GPU/CPU
Clusters", OSDI '20.

n GPU machines with gradients of M bytes, k CPU machines, and NICs of B bytes per second in each direction.
"""

from programs import Programs
from table import Table

NIC = 1e9  # bytes per second; figures are in M / B, so that it does not count
GPUS = 8  # of a machine
CHUNKS_OF_A_MACHINE = 32
SYSTEMS = {"all-reduce": "ring", "PS, not colocated": "ps-sharded", "PS, colocated": "ps-colocated", "BytePS": "byteps"}


def optimal(n: int, k: int) -> float:
    """The paper's least time of an operation, in M / B."""
    if n == 1:
        return 0.0
    if k > n:
        return 1.0
    return 2 * n * (n - 1) / (n * n + k * n - 2 * k)


def all_reduce(n: int) -> float:
    return 2 * (n - 1) / n


def parameter_server(n: int, k: int) -> float:
    """With k servers that have no GPUs."""
    return max(1.0, n / k)


def formula(system: str, n: int, k: int) -> float | None:
    """None: the system needs CPU machines."""
    if system == "BytePS":
        return optimal(n, k)
    if system == "PS, not colocated":
        return parameter_server(n, k) if k > 0 else None
    return all_reduce(n)  # a colocated PS sends as many bytes as a ring


def curve(programs: Programs) -> Table:
    table = Table("BytePS, Fig. 12: the optimal curve, 8 GPU machines",
                  "Times in M / B. gain: over all-reduce, which is the time without CPU machines.",
                  ["CPU machines", "paper's formula", "planned", "simulated", "gain"])
    for k in range(9):
        plan = programs.stars(8, k, NIC)
        table.rows.append([k, optimal(8, k), plan.tau * NIC, plan.simulated(CHUNKS_OF_A_MACHINE * (8 + k)) * NIC,
                           all_reduce(8) / optimal(8, k)])
    table.notes.append("planned: by the loads of `tallyctl plan make`. simulated: `tally-perf sim`, with ideal rules.")
    return table


def systems(programs: Programs) -> Table:
    table = Table("BytePS, Table 1: the communication time of each system",
                  "Times in M / B.", ["system", "n", "k", "formula", "by loads", "simulated"])
    for n, k in ((8, 0), (8, 4), (8, 8), (32, 8), (32, 32)):
        plan = programs.stars(n, k, NIC)
        names = [name for system, name in SYSTEMS.items() if formula(system, n, k) is not None]
        found = plan.baselines(names, CHUNKS_OF_A_MACHINE * (n + k))
        for system, name in SYSTEMS.items():
            if name in found:
                loads, simulated = found[name]
                table.rows.append([system, n, k, formula(system, n, k), loads * NIC, simulated * NIC])
    table.notes.append("The formulas of all-reduce, PS and BytePS are the paper's. That of a colocated PS is the one of BytePS's "
                       "shares for k = 0.")
    table.notes.append("by loads: the time of the busiest NIC in the simulator's baseline of this system.")
    return table


def scaling(programs: Programs) -> Table:
    table = Table("BytePS: the communication part of the scaling to 256 GPUs, 8 GPUs in a machine",
                  "Gains of BytePS, by which factor an operation is faster.",
                  ["GPUs", "n", "k", "over all-reduce", "planned", "simulated", "over PS with k servers"])
    for n in (2, 4, 8, 16, 32):
        for k in sorted({max(1, n // 4), n // 2, n}):
            plan = programs.stars(n, k, NIC)
            chunks = CHUNKS_OF_A_MACHINE * (n + k)
            _, ring = plan.baselines(["ring"], chunks)["ring"]
            table.rows.append([GPUS * n, n, k, all_reduce(n) / optimal(n, k), all_reduce(n) / (plan.tau * NIC),
                               ring / plan.simulated(chunks), parameter_server(n, k) / optimal(n, k)])
    table.notes.append("The paper's end-to-end gains with up to 256 GPUs are up to 84% over all-reduce and up to 245% over PS. They "
                       "include computation and what the systems' code costs, so this table cannot show them.")
    most = all_reduce(32) / optimal(32, 32) - 1
    table.notes.append(f"By communication alone the gain over all-reduce is at most {100 * most:.1f}% with n = k = 32.")
    return table


def tables(programs: Programs) -> list[Table]:
    return [curve(programs), systems(programs), scaling(programs)]
