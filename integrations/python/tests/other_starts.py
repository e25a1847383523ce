"""One rank of a start that parallel_test.py makes in processes of its own.

usage: other_starts.py two_backends|debug_detail
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def two_backends() -> None:
    """A backend for each kind of device. The tensors of the processor go to tally."""
    if not dist.is_nccl_available():
        try:  # a store for each rank: a later start must not find the shared store of this refused one
            dist.init_process_group("cpu:tally,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
            raise AssertionError("torch has no NCCL, and took it")
        except RuntimeError as error:
            assert "NCCL" in str(error), error  # torch's own refusal, as with cpu:gloo,cuda:nccl
    dist.init_process_group("cpu:tally,cuda:nccl" if dist.is_nccl_available() else "cpu:tally,cuda:gloo")
    assert dist.get_backend_config().startswith("cpu:tally,cuda:"), dist.get_backend_config()
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "tally"
    add_up()
    half = dist.new_group([0])
    if dist.get_rank() == 0:
        assert half._get_backend(torch.device("cpu")).name() == "tally"
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, dist.get_rank())
    assert found == list(range(dist.get_world_size()))


def debug_detail() -> None:
    """torch compares the ranks' calls before each collective, and names what differs."""
    import tally.torch
    assert dist.get_debug_level() == dist.DebugLevel.DETAIL
    dist.init_process_group("tally", timeout=timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.group.WORLD
    backend = world._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    for _ in range(3):
        add_up()
    assert backend._get_sequence_number_for_group() == before + 3
    world.monitored_barrier(timedelta(seconds=20))
    assert tally.torch.copied_bytes() > 0
    tally.torch.State().close()  # the hook beside it
    try:
        if rank == 0:
            dist.all_reduce(torch.ones(3))
        else:
            dist.broadcast(torch.ones(3), 0)
        raise AssertionError("ranks call different collectives, and torch does not say so")
    except RuntimeError as error:
        assert "ALLREDUCE" in str(error) and "BROADCAST" in str(error) and "SequenceNumber" in str(error), error


def add_up() -> None:
    tensor = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(tensor)
    assert tensor.item() == sum(range(dist.get_world_size()))


if __name__ == "__main__":
    {"two_backends": two_backends, "debug_detail": debug_detail}[sys.argv[1]]()
    dist.destroy_process_group()
