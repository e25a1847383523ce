#!/usr/bin/python3
"""All-reduce of Tally beside Open MPI, MPICH and Gloo, on this machine.

The systems take turns, round after round, so that what disturbs the machine disturbs all of them; of
each the median over the rounds counts. Ratios above 1 mean that Tally is faster. The ceiling is what
plain threads reach that move the same bytes (docs/perf.md), measured within Tally's runs.

usage: compare.py [--ranks 2,4] [--bytes 4K,1M,16M,64M,256M] [--rounds 5] [--transport fabric | --machines]
                  [--systems openmpi,mpich,gloo] [--bar X] [--json FILE] [--svg FILE]
"""
import argparse
import importlib.util
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bar  # noqa: E402
from systems import Gloo, Mpich, OpenMpi, Tally, TallyOnEachMachine, Unavailable  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Bytes that a system moves per rank in a round: enough iterations for a median, few enough to end.
BYTES_A_ROUND = 1 << 30
MOST_ITERATIONS = 2000


def size_of(text: str) -> int:
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isdigit() or (unit and unit not in UNITS) or int(number) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size like 4K or 256M")
    size = int(number) * UNITS.get(unit, 1)
    if size % 4 != 0:
        raise argparse.ArgumentTypeError(f"{text}: not a whole number of floats")
    return size


def list_of(read):
    return lambda text: [read(item) for item in text.split(",")]


def tally_of(scratch: Path, arguments) -> Tally:
    if arguments.machines:
        return TallyOnEachMachine(scratch, arguments.tally_perf, arguments.shards)
    return Tally(scratch, arguments.tally_perf, arguments.shards, arguments.transport)


def systems_at_hand(scratch: Path, arguments) -> list:
    found = []
    others = [system for system in (OpenMpi, Mpich, Gloo) if system.name in arguments.systems]
    for make in (lambda: tally_of(scratch, arguments),
                 *(lambda system=system: system(scratch) for system in others)):
        try:
            found.append(make())
        except Unavailable as missing:
            print(f"compare: left out: {missing}", file=sys.stderr)
    if not any(system.name == "tally" for system in found):
        sys.exit("compare: without tally-perf there is nothing to compare")
    return found


def measure(systems: list, ranks: int, size: int, rounds: int) -> dict:
    """One row: for each system the median of its rounds' medians, in us."""
    iterations = max(10, min(MOST_ITERATIONS, BYTES_A_ROUND // size))
    medians: dict[str, list[float]] = {system.name: [] for system in systems}
    ceilings = []
    for turn in range(rounds):
        # Who goes first changes, so that nobody always follows the same one.
        for system in systems[turn % len(systems):] + systems[:turn % len(systems)]:
            run = system.run(ranks, size, iterations, max(3, iterations // 10))
            if run.wrong:
                sys.exit(f"compare: {system.name}: {run.wrong} wrong elements of {size} bytes")
            medians[system.name].append(statistics.median(run.times_us))
            if run.ceiling_gbps is not None:
                ceilings.append(run.ceiling_gbps)
    time_us = {name: statistics.median(times) for name, times in medians.items()}
    row = {"ranks": ranks, "bytes": size, "iterations": iterations, "rounds": rounds,
           "time_us": time_us,
           "algbw_GBps": {name: size / time / 1e3 for name, time in time_us.items()},
           "ratio": {name: time / time_us["tally"] for name, time in time_us.items()
                     if name != "tally"},
           # Round by round, so that a round that was disturbed as a whole disturbs no ratio.
           "ratio_spread": {name: [min(r), max(r)] for name, times in medians.items()
                            if name != "tally"
                            for r in [[a / b for a, b in zip(times, medians["tally"])]]}}
    if ceilings:
        row["ceiling_GBps"] = statistics.median(ceilings)
        row["share"] = row["algbw_GBps"]["tally"] / row["ceiling_GBps"]
    return row


def size_text(size: int) -> str:
    for unit in ("G", "M", "K"):
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return str(size)


def print_row(row: dict, names: list[str]) -> None:
    cells = [f"{row['ranks']:>5}", f"{size_text(row['bytes']):>6}"]
    cells += [f"{row['time_us'][name]:>11.1f}" for name in names]
    cells += [f"{row['ratio'][name]:>8.2f}" for name in names if name != "tally"]
    cells.append(f"{row['share']:>6.0%}" if "share" in row else f"{'-':>6}")
    print(" ".join(cells), flush=True)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def means(rows: list[dict], names: list[str]) -> dict[int, dict[str, float]]:
    """By ranks and by what it is beside: the geometric mean of the ratios."""
    mpis = [name for name in names if name in ("openmpi", "mpich")]
    found = {}
    for ranks in sorted({row["ranks"] for row in rows}):
        mine = [row for row in rows if row["ranks"] == ranks]
        found[ranks] = {name: geometric_mean([row["ratio"][name] for row in mine]) for name in names if name != "tally"}
        if mpis:
            found[ranks]["the better MPI at each size"] = geometric_mean(
                [min(row["ratio"][name] for name in mpis) for row in mine])
    return found


def print_means(found: dict[int, dict[str, float]]) -> None:
    for ranks, ratios in found.items():
        if ratios:
            print(f"# {ranks} ranks, geometric mean of the ratios: "
                  + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))


def writable(text: str) -> str:
    """A file that can be written, found out before minutes of measuring."""
    try:
        with open(text, "a", encoding="utf-8"):
            return text
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


def plot(rows: list[dict], names: list[str], file: str) -> None:
    import matplotlib  # heavy, and only needed here
    matplotlib.use("svg")
    from matplotlib import pyplot
    groups = sorted({row["ranks"] for row in rows})
    figure, axes = pyplot.subplots(1, len(groups), figsize=(6 * len(groups), 4), squeeze=False)
    for axis, ranks in zip(axes[0], groups):
        mine = [row for row in rows if row["ranks"] == ranks]
        sizes = [row["bytes"] for row in mine]
        for name in names:
            axis.plot(sizes, [row["algbw_GBps"][name] for row in mine], marker="o", label=name)
        if all("ceiling_GBps" in row for row in mine):
            axis.plot(sizes, [row["ceiling_GBps"] for row in mine], "k--", label="ceiling")
        axis.set(xscale="log", yscale="log", xlabel="bytes", ylabel="GB/s of gradients",
                 title=f"all-reduce of {ranks} processes, f32, out of place")
        axis.set_xticks(sizes, [size_text(size) for size in sizes])
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=list_of(int), default=[2, 4])
    parser.add_argument("--bytes", type=list_of(size_of),
                        default=list_of(size_of)("4K,1M,16M,64M,256M"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=2, help="of the node (default 2)")
    parser.add_argument("--transport", default="shm", choices=("shm", "fabric"), help="of Tally")
    parser.add_argument("--machines", action="store_true",
                        help="Tally has a node for each rank, as if each had a machine; TCP goes between these")
    parser.add_argument("--systems", type=list_of(str), default=[OpenMpi.name, Mpich.name, Gloo.name],
                        help="beside Tally: of openmpi,mpich,gloo (default all)")
    parser.add_argument("--tally-perf", type=Path, default=ROOT / "build/perf/tally-perf")
    bar.add_option(parser, "a mean of the ratios is below X")
    parser.add_argument("--json", metavar="FILE", type=writable)
    parser.add_argument("--svg", metavar="FILE", type=writable, help="a plot (needs python3-matplotlib)")
    arguments = parser.parse_args()
    if min(arguments.ranks) < 2 or arguments.rounds < 1:
        parser.error("at least 2 ranks and 1 round")
    if arguments.svg and importlib.util.find_spec("matplotlib") is None:
        parser.error(f"--svg needs matplotlib, which {sys.executable} does not have: "
                     "tools/setup --compare installs Debian's, for /usr/bin/python3")
    with tempfile.TemporaryDirectory(prefix="tally-compare-") as scratch:
        systems = systems_at_hand(Path(scratch), arguments)
        names = [system.name for system in systems]
        print("ranks  bytes " + " ".join(f"{name + ' us':>11}" for name in names) + " "
              + " ".join(f"{'/' + name:>8}" for name in names if name != "tally") + "  share")
        rows = []
        for ranks in arguments.ranks:
            for size in arguments.bytes:
                rows.append(measure(systems, ranks, size, arguments.rounds))
                print_row(rows[-1], names)
        found = means(rows, names)
        print_means(found)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"rows": rows}, indent=2) + "\n")
    if arguments.svg:
        plot(rows, names, arguments.svg)
    return bar.status(arguments.bar, {f"with {ranks} ranks the mean ratio to {name}": ratio
                                      for ranks, ratios in found.items() for name, ratio in ratios.items()})


if __name__ == "__main__":
    sys.exit(main())
