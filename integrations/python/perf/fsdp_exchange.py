"""What FSDP2's all-gathers and reduce-scatters cost a training step, with tally and with gloo.

A model of 100 million parameters in 12 layers, with a batch of one, so that it computes little. The exchange time is a
step's time less that of a step whose group exchanges nothing (torch's backend "fake"). All are measured in turns, in the
same processes; medians count.

    tools/python -m torch.distributed.run --nproc-per-node 2 integrations/python/perf/fsdp_exchange.py [--rounds N]
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers "fake")

import tally.torch

LAYERS, WIDTH = 12, 2887  # 12 * 2887 * 2888 parameters: 100 million


def make(group: dist.ProcessGroup, allocates: bool) -> torch.nn.Module:
    """Returns the model, each of its layers a unit of FSDP. allocates: the backend gives the memory of collectives."""
    mesh = DeviceMesh.from_group(group, "cpu")
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if allocates:
        for module in (*model, model):
            module.set_allocate_memory_from_process_group_for_comm(True)
    return model


def step_time(model: torch.nn.Module) -> float:
    """Seconds of a forward and a backward pass."""
    dist.barrier()
    begin = time.perf_counter()
    model(torch.ones(1, WIDTH)).sum().backward()
    taken = time.perf_counter() - begin
    for parameter in model.parameters():
        parameter.grad = None
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    dist.init_process_group("tally")
    torch.manual_seed(1)
    groups = {"fake": dist.new_group(backend="fake"), "gloo": dist.new_group(backend="gloo"), "tally": dist.group.WORLD}
    models = {name: make(group, name == "tally") for name, group in groups.items()}
    times: dict = {name: [] for name in models}
    for turn in range(rounds + 1):
        for name, model in models.items():
            taken = step_time(model)
            if turn > 0:
                times[name].append(taken)
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    if dist.get_rank() == 0:
        print(f"a step that exchanges nothing: {medians['fake']:.0f} ms")
        gloo, ours = (medians[name] - medians["fake"] for name in ("gloo", "tally"))
        print(f"exchange: tally {ours:.0f} ms, gloo {gloo:.0f} ms, {gloo / ours:.1f}x")
        print(f"copied by the backend: {tally.torch.copied_bytes()} bytes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
