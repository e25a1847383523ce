"""Pipelines with replicas: Pipe-Torch, Concurrency and Computation: Practice and Experience, 2020."""

import json
import statistics
import sys
from pathlib import Path

import pipedream
from programs import Programs
from table import Table

PERF = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PERF))
import roofline  # noqa: E402

MOST_BLOCKS = 20
FLOPS, MEMORY = 10e12, 500e9  # of the GPUs
MODELS = ("vgg16", "resnet50", "bert-large", "gpt2")
PCIE = 10e9  # bytes per second
# Servers as (GPUs, their speed, NIC in bytes per second).
CLUSTERS = {
    "2 x 2 GPUs, 10GbE": [(2, 1.0, 1.25e9)] * 2,
    "2 x 2 GPUs, one server at half speed, 10GbE": [(2, 1.0, 1.25e9), (2, 0.5, 1.25e9)],
    "4 x 2 GPUs, 10GbE": [(2, 1.0, 1.25e9)] * 4,
    "4 x 2 GPUs, 10GbE and 25GbE": [(2, 1.0, 1.25e9)] * 2 + [(2, 1.0, 3.125e9)] * 2,
    "2 x 4 GPUs, 25GbE": [(4, 1.0, 3.125e9)] * 2,
}


MEASURED = ("vgg16", "resnet50", "alexnet")  # models of PipeDream's profiles
MEASURED_ON = ("2 x 2 GPUs, 10GbE", "4 x 2 GPUs, 10GbE", "2 x 4 GPUs, 25GbE")


def profile_of(model: str) -> dict:
    file = PERF / f"workloads/{model}.json"
    arguments = roofline.read_arguments([str(file), "--flops", str(FLOPS), "--memory", str(MEMORY), "--samples", "32" if model in
                                         roofline.SIDES else "8"])
    return roofline.profile_of(json.loads(file.read_text(encoding="utf-8")), arguments)


def gpus_of(servers: list[tuple[int, float, float]]) -> dict:
    return {"fmt": "tally-gpus/1",
            "servers": [{"name": f"s{i}", "nic": nic, "inside": PCIE, "gpus": [{"type": "gpu", "speed": speed, "count": count}]}
                        for i, (count, speed, nic) in enumerate(servers)]}


def gain(programs: Programs, profile: dict, servers: list, *options) -> float:
    """How many times as long data parallelism takes for a microbatch as the planned pipeline."""
    answer = programs.pipeline(profile, gpus_of(servers), "--merge-blocks", MOST_BLOCKS, *options)
    return answer["data_parallel"]["bottleneck"] / answer["bottleneck"]


def tables(programs: Programs) -> list[Table]:
    table = Table("Pipe-Torch: planned pipelines beside data parallelism",
                  "How many times as long data parallelism takes for a microbatch in the steady state.",
                  ["cluster", "sums", *MODELS, "mean"])
    profiles = {model: profile_of(model) for model in MODELS}
    for name, servers in CLUSTERS.items():
        for sums, options in (("after", []), ("overlapped", ["--overlap"])):
            found = [gain(programs, profile, servers, *options) for profile in profiles.values()]
            table.rows.append([name, sums, *found, statistics.mean(found)])
    average = statistics.mean(table.column("mean"))
    table.notes += ["The paper states 1.4 on average, for its own models and machines.",
                    f"The mean of all rows is {average:.2f}.",
                    f"Profiles are estimates by `perf/roofline.py` for GPUs of {FLOPS / 1e12:g} TFLOPS and {MEMORY / 1e9:g} GB/s, "
                    f"with at most {MOST_BLOCKS} blocks; PCIe has {PCIE / 1e9:g} GB/s. Measured profiles give other figures.",
                    "sums: whether gradients are summed after the backward pass, or overlapped with it."]
    return [table]


def graph_of(profiles: Path, model: str) -> Path:
    return profiles / model / "graph.txt"


def missing_in(profiles: Path) -> Path | None:
    return next((file for model in MEASURED if not (file := graph_of(profiles, model)).exists()), None)


def measured(programs: Programs, profiles: Path) -> Table:
    table = Table("Pipe-Torch: planned pipelines by profiles that PipeDream's authors measured",
                  "How many times as long data parallelism takes for a microbatch in the steady state.",
                  ["cluster", "sums", *MEASURED])
    found = {model: pipedream.profile_of(graph_of(profiles, model)) for model in MEASURED}
    for name in MEASURED_ON:
        for sums, options in (("after", []), ("overlapped", ["--overlap"])):
            table.rows.append([name, sums, *(gain(programs, one, CLUSTERS[name], *options) for one in found.values())])
    table.notes += [f"PCIe has {PCIE / 1e9:g} GB/s, and models at most {MOST_BLOCKS} blocks.",
                    "A microbatch is what PipeDream's authors profiled."]
    return table
