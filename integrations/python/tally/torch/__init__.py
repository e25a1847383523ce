"""PyTorch front ends: a communication hook for DistributedDataParallel, and the backend "tally".

    import torch.distributed as dist

    dist.init_process_group("tally")              # instead of "gloo"; or keep gloo and
    ddp.register_comm_hook(tally.torch.State(), tally.torch.allreduce_hook)

From the import of this module on (init_process_group("tally") imports it), torch allocates CPU memory of 1 MiB
and more where a node on this machine can use it in place.
"""

from __future__ import annotations

import torch

from tally._register import register
from tally.torch._built_for import VERSION

if not VERSION:
    raise ImportError("tally was built where torch was missing: install torch, and build tally again")
if VERSION != torch.__version__:
    raise ImportError(f"tally was built for torch {VERSION}, and this is torch {torch.__version__}: "
                      "build it again, in this environment")
import tally.torch._torch as _torch  # noqa: E402
from tally.torch._backend import create as create_backend
from tally.torch._hook import State, allreduce_hook
from tally.torch._profile import merge_profiles, profile_blocks

__all__ = ["State", "allreduce_hook", "contributors", "copied_bytes", "copied_on_devices", "is_shared", "merge_profiles",
           "profile_blocks"]

_torch.install_allocator()
register()


def is_shared(tensor) -> bool:
    """Whether the tensor is in memory that a node on this machine can use in place."""
    return _torch.is_shared(tensor)


def copied_bytes(group=None) -> int:
    """Bytes that the backend's group has copied so far, because the node cannot use their memory in place."""
    from tally.torch._backend import communicator_of
    return communicator_of(group).copied_bytes


def contributors(group=None) -> int:
    """The number of ranks whose contributions the operation has that ended last at the node: with
    TALLY_ON_RANK_LOSS=finish fewer than the group has when ranks are lost."""
    from tally.torch._backend import communicator_of
    return communicator_of(group).contributors


def copied_on_devices(group=None) -> int:
    """Bytes that the backend's group has copied on devices, between tensors and the buffers that the nodes use."""
    from tally.torch._backend import group_of
    return group_of(group).copied_on_devices
