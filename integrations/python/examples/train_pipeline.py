"""A small GPT in pipeline stages that `tallyctl plan pipeline` has chosen, on ranks of different speeds.

Profiles the blocks of the model, measures the ranks, plans the stages, and trains: torch's pipeline schedule (1F1B)
passes activations on by gloo, and a job of Tally sums the gradients of each stage's replicas. Prints the predicted time of
an iteration beside the measured one, for the planned stages and for an even split:

    tools/python integrations/python/examples/train_pipeline.py

As root, each rank has a control group with a CPU limit of its own (--cpus). Without root there are no limits, and all
ranks share the processors of this machine.
"""

import argparse
import dataclasses
import json
import os
import statistics
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

import cpu_limits
import pipeline_rank
import tally.torch
from pipeline_model import Pieces, blocks
from pipeline_plan import TYPE, Division, Machine, Planner
from pipeline_rank import Trained, Training


@dataclasses.dataclass(frozen=True)
class Run:
    """What the ranks need to know."""

    training: Training
    folder: Path  # for the profile, the file of GPUs and the plans
    store: Path  # by which the ranks find each other
    profile: dict
    groups: list[Path]  # the control groups by rank; empty: none
    json: Path | None
    save: Path | None


def profiled(training: Training, folder: Path) -> dict:
    given, _ = Pieces().batch(0, training.microbatch)
    return tally.torch.profile_blocks(blocks(training.layers), given, type=TYPE, model="gpt", path=folder / "profile.json")


def run_rank(rank: int, ranks: int, run: Run) -> None:
    pipeline_rank.start(rank, ranks, run.store, run.groups[rank] if run.groups else None)
    pieces = Pieces()
    machine = pipeline_rank.measured(run.training, run.profile, pieces)
    divisions: list = [None, None]
    if rank == 0:
        planner = Planner(run.folder, run.profile, machine, run.training.microbatches)
        divisions = [planner.even(), planner.planned()]
    dist.broadcast_object_list(divisions)
    trained = [pipeline_rank.train(run.training, division, pieces) for division in divisions]
    if rank == 0:
        report = report_of(run, machine, divisions, trained)
        print_report(report)
        if run.json:
            run.json.write_text(json.dumps(report, indent=1) + "\n")
        if run.save:
            torch.save([trained[-1].blocks[number] for number in sorted(trained[-1].blocks)], run.save)
    dist.barrier()
    dist.destroy_process_group()


def report_of(run: Run, machine: Machine, divisions: list[Division], trained: list[Trained]) -> dict:
    rows = []
    for division, result in zip(divisions, trained):
        # The first iteration includes what torch and gloo prepare once.
        rows.append({"division": division.name, "stages": [dataclasses.asdict(stage) for stage in division.stages],
                     "microbatches": division.microbatches, "predicted": division.seconds,
                     "measured": statistics.median(result.seconds[1:]), "seconds": result.seconds[1:],
                     "losses": result.losses, "text": division.describe()})
    even, planned = rows
    return {"limited": bool(run.groups), "speeds": machine.speeds, "nic": machine.nic, "inside": machine.inside,
            "divisions": rows, "predicted_gain": even["predicted"] / planned["predicted"],
            "measured_gain": even["measured"] / planned["measured"]}


def print_report(report: dict) -> None:
    print("speeds of the ranks, in parts of the profiled one: " + " ".join(f"{speed:.3f}" for speed in report["speeds"]))
    print(f"between servers {report['nic'] / 1e6:.0f} MB/s, sums in a server as by a ring of {report['inside'] / 1e6:.0f} MB/s")
    for row in report["divisions"]:
        print(f"{row['division']}: {row['text']}; {' and '.join(map(str, row['microbatches']))} microbatches")
    print(f"{'split':8} {'predicted ms':>12} {'measured ms':>12} {'measured / predicted':>21} {'loss':>12}")
    for row in report["divisions"]:
        print(f"{row['division']:8} {1e3 * row['predicted']:12.0f} {1e3 * row['measured']:12.0f} "
              f"{row['measured'] / row['predicted']:21.2f} {row['losses'][0]:.2f} to {row['losses'][-1]:.2f}")
    print(f"planned stages are {report['measured_gain']:.2f} times as fast as the even split; "
          f"predicted: {report['predicted_gain']:.2f}", flush=True)


def numbers(text: str) -> list[float]:
    found = [float(part) for part in text.split(",")]
    if not all(0.05 <= cores <= 64 for cores in found):
        raise argparse.ArgumentTypeError(f"{text}: each rank has 0.05 to 64 cores")
    return found


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpus", type=numbers, default=[0.55, 0.44, 0.3, 0.24], metavar="C,C,...",
                        help="cores of each rank; as many ranks as numbers (default 0.55,0.44,0.3,0.24)")
    parser.add_argument("--replicas", type=int, default=2, help="of each stage (default 2)")
    parser.add_argument("--layers", type=int, default=12, help="of the GPT (default 12)")
    parser.add_argument("--microbatch", type=int, default=8, help="sequences of a microbatch (default 8)")
    parser.add_argument("--microbatches", type=int, default=18, help="of an iteration, over all replicas (default 18)")
    parser.add_argument("--steps", type=int, default=8, help="iterations that count, after a first one (default 8)")
    parser.add_argument("--calibrate", type=float, default=4.0, metavar="SECONDS", help="to measure the ranks' speeds (default 4)")
    parser.add_argument("--no-limits", action="store_true", help="no control groups")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="keep the profile, the GPUs and the plans there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured there")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the trained model there: the state of each block")
    arguments = parser.parse_args()
    ranks, replicas = len(arguments.cpus), arguments.replicas
    if replicas < 1 or ranks % replicas or ranks // replicas < 2:
        parser.error(f"--cpus has {ranks} ranks, and --replicas {replicas}: there must be two stages of so many replicas or more")
    least = ranks  # 1F1B needs a microbatch in each stage of a chain
    if arguments.microbatches < least:
        parser.error(f"--microbatches {arguments.microbatches}: at least {least}, one for each rank")
    if arguments.layers + 2 < ranks // replicas or arguments.layers < 1:
        parser.error(f"--layers {arguments.layers}: at least 1, and with the two other blocks one for each stage")
    if min(arguments.steps, arguments.microbatch) < 1:
        parser.error("--steps and --microbatch: at least 1")
    return arguments


def main() -> None:
    arguments = read_arguments()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    training = Training(arguments.layers, arguments.microbatch, arguments.microbatches, arguments.replicas, arguments.steps,
                        arguments.calibrate)
    with tempfile.TemporaryDirectory(prefix="tally-pipeline-") as scratch, \
            cpu_limits.CpuLimits([] if arguments.no_limits else arguments.cpus) as limits:
        folder = arguments.files or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        cpus = " ".join(f"{cores:g}" for cores in arguments.cpus)
        print(f"cores of the ranks: {cpus}, by {limits.kind}" if limits.groups else
              f"no limits of CPU time: {limits.missing or '--no-limits'}", flush=True)
        run = Run(training, folder, Path(scratch, "store"), profiled(training, folder), limits.groups, arguments.json,
                  arguments.save)
        torch.multiprocessing.spawn(run_rank, (len(arguments.cpus), run), nprocs=len(arguments.cpus))


if __name__ == "__main__":
    main()
