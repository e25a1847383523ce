"""Trainings on a device (device/torch_device.py): DistributedDataParallel and FSDP2."""

import functools

import group
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import tally.torch
import torch_device

DEVICE = torch.device(torch_device.NAME)
STEPS = 20


def prepare(_rank, _ranks):
    dist.init_process_group(f"cpu:tally,{torch_device.NAME}:tally")
    torch.set_num_threads(1)


def finish():
    torch_device.check_at_end()
    dist.destroy_process_group()


@functools.cache
def gloo():
    return dist.new_group(backend="gloo")


def network():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(24, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 24))


def trained(model, device=DEVICE):
    """Returns the losses of this rank."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        given = torch.randn(12, 24, generator=torch.Generator().manual_seed(100 * step + dist.get_rank())).to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(given), given)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@functools.cache
def losses_with_gloo():
    return trained(DistributedDataParallel(network(), process_group=gloo()), torch.device("cpu"))


def close_to_gloo(losses):
    worst = max(abs(a - b) for a, b in zip(losses, losses_with_gloo()))
    assert worst < torch_device.TOLERANCE, worst


def with_hook(device=DEVICE, **options):
    model = DistributedDataParallel(network().to(device), bucket_cap_mb=0.2)
    state = tally.torch.State(**options)
    model.register_comm_hook(state, tally.torch.allreduce_hook)
    return model, state


def bytes_of_gradients():
    return sum(p.numel() * p.element_size() for p in network().parameters())


def ddp_with_the_backend(_rank, _ranks):
    copied = tally.torch.copied_on_devices()
    first, second = (trained(DistributedDataParallel(network().to(DEVICE), bucket_cap_mb=0.2)) for _ in range(2))
    assert first == second
    close_to_gloo(first)
    assert tally.torch.copied_on_devices() - copied > 2 * 2 * STEPS * bytes_of_gradients()


def ddp_with_the_hook(_rank, _ranks):
    runs = []
    for _ in range(2):
        model, state = with_hook()
        runs.append(trained(model))
        assert state.copied_on_devices > 0
        # Over the bus: each gradient to the host, and its sum back. The library counts what has ended.
        torch_device.until(lambda: state.copied_bytes == 2 * STEPS * bytes_of_gradients())
        state.close()
    assert runs[0] == runs[1]
    close_to_gloo(runs[0])


def hook_with_half_the_bytes(_rank, _ranks):
    """The same bits as on the CPU, where torch makes the gradients smaller. The losses differ by the model's own sums."""
    (on_device, first), (on_cpu, second) = with_hook(wire="bf16"), with_hook(torch.device("cpu"), wire="bf16")
    given, wanted = trained(on_device), trained(on_cpu, torch.device("cpu"))
    assert max(abs(a - b) for a, b in zip(given, wanted)) < torch_device.TOLERANCE
    for state in (first, second):
        state.close()


def hook_with_statistics(_rank, _ranks):
    (on_device, first), (on_cpu, second) = with_hook(stats=True), with_hook(torch.device("cpu"), stats=True)
    trained(on_device)
    trained(on_cpu, torch.device("cpu"))
    assert abs(first.gradient_norm - second.gradient_norm) < torch_device.TOLERANCE * second.gradient_norm
    assert first.nonfinite == second.nonfinite == 0
    for state in (first, second):
        state.close()


def a_missing_rank_is_an_error_within_a_step(rank, _ranks):
    model, state = with_hook(deadline=1)
    given = torch.ones(12, 24).to(DEVICE)

    def step():
        model(given).square().sum().backward()
    for _ in range(2):  # the second one makes the buckets anew, with a broadcast in the default group
        step()
    if rank == 0:
        # The second one at the latest: the host may wait for the device within the first one.
        group.raises("Timed out: tag", lambda: [(step(), torch.accelerator.synchronize()) for _ in range(2)])
    dist.barrier()
    state.close()


def sharded(ranks, **options):
    mesh = init_device_mesh(torch_device.NAME, (ranks,))
    model = network().to(DEVICE)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options), mesh


def fsdp2(_rank, ranks):
    for from_group in (False, True):
        model, mesh = sharded(ranks)
        for module in model.modules():
            if from_group and hasattr(module, "set_allocate_memory_from_process_group_for_comm"):
                module.set_allocate_memory_from_process_group_for_comm(True)
        copied = tally.torch.copied_on_devices(mesh.get_group())
        first = trained(model)
        assert tally.torch.copied_on_devices(mesh.get_group()) > copied
        close_to_gloo(first)
        assert trained(sharded(ranks)[0]) == first


if __name__ == "__main__":
    group.main({
        "ddp-backend": ddp_with_the_backend,
        "ddp-hook": ddp_with_the_hook,
        "hook-bf16": hook_with_half_the_bytes,
        "hook-statistics": hook_with_statistics,
        "hook-missing-rank": a_missing_rank_is_an_error_within_a_step,
        "fsdp2": fsdp2,
        "exchange": group.Program(("exchange_on_device.py", "--model", "1M", "--rounds", "1", "--steps", "1"), (2,)),
    }, widths=(2,), prepare=prepare, finish=finish)
