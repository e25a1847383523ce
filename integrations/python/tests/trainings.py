"""Trainings of tiny models, in the ways of torch.distributed. parallel_test.py compares their losses between backends.

A way is a function of (backend, ranks): it makes its groups with this backend and returns a function of (step), which
trains one step and returns this rank's loss.
"""

import functools
import os
import shutil

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

WIDTH, ROWS = 24, 12  # 2, 3 and 4 ranks can divide them


@functools.cache
def group_of(backend: str):
    return dist.new_group(backend=backend)


@functools.cache
def mesh_of(backend: str, *sizes: int):
    """Returns a mesh of all ranks, whose last dimension shards. DTensor takes meshes of the same names and sizes for
    the same mesh, whatever their groups, so the names tell the backends apart."""
    names = tuple(f"{backend}_{name}" for name in ("replicate", "shard")[-len(sizes):])
    return init_device_mesh("cpu", sizes, mesh_dim_names=names, backend_override={name: backend for name in names})


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return given + self.narrow(torch.tanh(self.wide(given)))


def network(blocks: int = 2) -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(*(Block() for _ in range(blocks)))


def batch(step: int, of: int = 0) -> torch.Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(100 * step + of))


def loss_of(output: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """The model learns to turn the features of each row around."""
    return nn.functional.mse_loss(output, given.flip(1))


def stepped(model: nn.Module, of: int):
    """Trains the model with the batches of one rank, or of all ranks that share a batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(number: int) -> float:
        given = batch(number, of)
        optimizer.zero_grad()
        loss = loss_of(model(given), given)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def ddp(backend: str, _ranks: int):
    return stepped(DistributedDataParallel(network(), process_group=group_of(backend), bucket_cap_mb=0.01), dist.get_rank())


def with_hook(model: nn.Module, backend: str, **options) -> nn.Module:
    """Gloo's group in both cases. With tally the hook exchanges the gradients."""
    import tally.torch
    model = DistributedDataParallel(model, process_group=group_of("gloo"), **{"bucket_cap_mb": 0.01, **options})
    if backend == "tally":
        model.register_comm_hook(tally.torch.State(group_of("gloo")), tally.torch.allreduce_hook)
    return model


def hook_with_all_options(backend: str, _ranks: int):
    """Three trainings, and the sum of their losses. The last one adds up the gradients of two batches."""
    trained = [stepped(with_hook(network(), backend, **options), dist.get_rank()) for options in (
        {"static_graph": True, "gradient_as_bucket_view": True},
        {"find_unused_parameters": True, "gradient_as_bucket_view": True})]
    model = with_hook(network(), backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    def twice(number: int) -> float:
        first, second = batch(number, dist.get_rank()), batch(number + 1000, dist.get_rank())
        optimizer.zero_grad()
        with model.no_sync():
            loss_of(model(first), first).backward()
        loss = loss_of(model(second), second)
        loss.backward()
        optimizer.step()
        return loss.item()
    return lambda number: sum(step(number) for step in (*trained, twice))


def hook_compiled(backend: str, _ranks: int):
    """torch.compile cuts the model at the buckets, and insists on a first one (1 MB) that is not the largest."""
    compiler = "inductor" if os.environ.get("TALLY_TEST_TIER") == "soak" and shutil.which("g++") else "aot_eager"
    return stepped(torch.compile(with_hook(network(), backend, bucket_cap_mb=2), backend=compiler), dist.get_rank())


def hook_in_mixed_precision(backend: str, _ranks: int):
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(given)
    return stepped(with_hook(Mixed(), backend), dist.get_rank())


def sharded(model: nn.Module, mesh, only: type = nn.Module, **options) -> nn.Module:
    for layer in model:
        if isinstance(layer, only):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp(backend: str, ranks: int):
    return stepped(sharded(network(), mesh_of(backend, ranks)), dist.get_rank())


def hsdp(backend: str, ranks: int):
    replicas = 2 if ranks % 2 == 0 else 1
    return stepped(sharded(network(), mesh_of(backend, replicas, ranks // replicas)), dist.get_rank())


def in_parts(model: nn.Module, mesh) -> nn.Module:
    """Splits each block: the first layer by columns, the second by rows."""
    for block in model:
        parallelize_module(block, mesh, {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})
    return model


def tensor_parallel(backend: str, ranks: int):
    return stepped(in_parts(network(), mesh_of(backend, ranks)), 0)


def tensor_parallel_and_fsdp(backend: str, ranks: int):
    """Splits the layers over pairs of ranks, and shards these parts over the pairs."""
    in_group = 2 if ranks % 2 == 0 else 1
    mesh = mesh_of(backend, ranks // in_group, in_group)
    pairs, in_pair = (mesh[name] for name in mesh.mesh_dim_names)
    return stepped(sharded(in_parts(network(), in_pair), pairs), pairs.get_local_rank())


def pipeline(backend: str, ranks: int):
    """A stage of the model at each rank. The last rank has the loss."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    rank, group = dist.get_rank(), group_of(backend)
    model = network(ranks)[rank]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=loss_of)

    def step(number: int) -> float:
        given, losses = batch(number), []
        optimizer.zero_grad()
        schedule.step(*([given] if rank == 0 else []), target=given if rank == ranks - 1 else None, losses=losses)
        optimizer.step()
        return torch.stack(losses).mean().item() if rank == ranks - 1 else 0.0
    return step


def losses(way, backend: str, ranks: int, steps: int) -> list[float]:
    """The losses of all ranks, step after step, as every rank returns them."""
    step = way(backend, ranks)
    mine = [step(number) for number in range(steps)]
    found = [None] * ranks
    dist.all_gather_object(found, mine)
    return [loss for of_step in zip(*found) for loss in of_step]
