"""torch.distributed's backend "tally"."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from tally._error import Error
import tally.torch._torch as _torch
from tally.torch._connect import connect, of_this_start


def create(store, rank: int, ranks: int, timeout: timedelta):
    """Makes the backend of one group. All ranks of the group call it, with a store that only they use."""
    seconds = timeout.total_seconds()
    communicator = connect(store, rank, ranks, seconds)
    gloo = dist.ProcessGroupGloo(of_this_start("gloo", store), rank, ranks, timeout)
    return _torch.Group(communicator, seconds, gloo)


def backend_of(group):
    """Returns the group's backend for CPU tensors. A group without one has one backend, which is returned."""
    devices = group._device_types
    cpu = torch.device("cpu")
    backend = group._get_backend(cpu if cpu in devices else devices[0])
    while isinstance(backend, c10d._ProcessGroupWrapper):  # TORCH_DISTRIBUTED_DEBUG=DETAIL
        backend = backend.wrapped_pg
    return backend


def group_of(group=None) -> "_torch.Group":
    """Returns the backend of a group that init_process_group or new_group has made with it."""
    backend = backend_of(c10d._get_default_group() if group is None else group)
    if not isinstance(backend, _torch.Group):
        raise Error("the group's backend is not \"tally\"", "invalid argument")
    return backend


def communicator_of(group=None) -> "_torch.Communicator":
    """Returns the session of such a group."""
    return group_of(group).communicator
