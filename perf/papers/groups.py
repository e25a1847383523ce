"""Groups of synchronous workers that train asynchronously from each other: Kim et al., Cluster Computing, 2020."""

from programs import Programs
from table import Table

WORKERS = 8  # half of them slow
BYTES, NIC = 1e8, 4e8  # a gradient takes a quarter of a fast worker's step
RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
ANY_STALENESS = 1000


def steps(ratio: float, server: float) -> dict:
    """server: gradients per second of the parameter server."""
    return {"fmt": "tally-steps/1", "bytes": BYTES, "batch": 1, "nic": NIC, "server": {"name": "s", "speed": server * BYTES},
            "workers": [{"name": f"w{i}", "step": 1.0 if i < WORKERS // 2 else ratio} for i in range(WORKERS)]}


def planned(programs: Programs, ratio: float, server: float) -> dict:
    return programs.groups(steps(ratio, server), "--max-staleness", ANY_STALENESS)


def tables(programs: Programs) -> list[Table]:
    table = Table("Kim et al.: groups beside synchronous training, by how much workers differ",
                  "Samples per second; 8 workers, of which 4 have steps of 1 s and 4 are slower by `ratio`; gain: of groups over "
                  "synchronous.",
                  ["ratio", "server", "synchronous", "workers wait", "groups", "of sizes", "samples/s", "gain", "to the same loss"])
    for server in (0.5, 1.0, 4.0):
        for ratio in RATIOS:
            answer = planned(programs, ratio, server)
            sizes = [str(len(group["workers"])) for group in answer["groups"]]
            table.rows.append([ratio, server, answer["synchronous"], f"{100 * answer['synchronous_idle']:.0f}%", len(sizes),
                               " ".join(sizes), answer["throughput"], answer["throughput"] / answer["synchronous"],
                               f"{answer['least_speedup']:.2f} to {answer['most_speedup']:.2f}"])
    table.notes += ["The paper's figures depend on its GPUs and models, so this table repeats none of them.",
                    "server: gradients per second of the parameter server. to the same loss: a range, because throughput does not "
                    "say what staleness costs (docs/pipelines.md)."]
    return [table]
