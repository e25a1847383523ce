"""torch.distributed's backend "tally"."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from tally._error import Error
import tally.torch._torch as _torch
from tally.torch._connect import connect

def register() -> None:
    """Registers the backend for init_process_group("tally"). Later calls do nothing."""
    if hasattr(dist.Backend, "TALLY"):
        return
    options: dict = {"devices": ["cpu"]} if int(torch.__version__.split(".")[0]) >= 2 else {}
    dist.Backend.register_backend("tally", _create, **options)


def _create(store, rank: int, ranks: int, timeout: timedelta):
    seconds = timeout.total_seconds()
    communicator = connect(dist.PrefixStore("tally", store), rank, ranks, seconds)
    # For point-to-point operations, and for reductions that tally does not have.
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, ranks, timeout)
    return _torch.make_group(communicator, seconds, gloo)


def communicator_of(group=None):
    """Returns the session of a group that init_process_group or new_group has made with this backend."""
    group = c10d._get_default_group() if group is None else group
    if hasattr(group, "_get_backend"):  # torch 2.x
        group = group._get_backend(torch.device("cpu"))
    communicator = _torch.communicator_of(group)
    if communicator is None:
        raise Error("the group's backend is not \"tally\"", "invalid argument")
    return communicator
