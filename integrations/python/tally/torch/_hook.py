"""The communication hook for DistributedDataParallel."""

# No postponed annotations here: torch compares the hook's with its classes.
import math
from typing import Optional

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from tally.torch import _torch
from tally.torch._connect import connect

_WIRE = {None: None, "f32": None, "bf16": torch.bfloat16, "f16": torch.float16}
_states = 0


class State:
    """What the hook needs: a session of the group's ranks with a node.

    process_group  the group of the DistributedDataParallel; None: the default one. Any backend.
    wire           "bf16" or "f16": gradients travel in half the bytes and are summed in float32,
                   and rounded once; None: as they are
    stats          also counts what is not finite and sums squares, for clipping and loss scaling
    in_place       results over the buckets. By default only where torch would copy them otherwise
                   (gradient_as_bucket_view): apart from them, a lost node costs no gradients
    deadline       seconds after which a bucket fails when not all ranks have announced it

    Use one State for one DistributedDataParallel. Every rank makes its States in the same order.
    """

    def __init__(self, process_group=None, *, wire: Optional[str] = None, stats: bool = False,
                 in_place: bool = False, deadline: float = 60.0) -> None:
        if wire not in _WIRE:
            raise ValueError(f"wire={wire!r}: must be one of None, 'bf16', 'f16'")
        global _states
        _states += 1
        group = process_group if process_group is not None else c10d._get_default_group()
        self.wire = _WIRE[wire]
        self.stats = stats
        self.in_place = in_place
        store = dist.PrefixStore(f"tally-hook-{_states}-{_group_name(group)}",
                                 c10d._get_default_store())
        self.communicator = connect(store, dist.get_rank(group), dist.get_world_size(group),
                                    deadline)
        self._reducer = _torch.BucketReducer(self.communicator)
        self._outputs: dict[int, torch.Tensor] = {}

    @property
    def gradient_norm(self) -> float:
        """The 2-norm of the averaged gradients of the last backward pass (stats=True), which every
        rank knows alike; without those that are not finite (nonfinite counts them)."""
        return math.sqrt(self._reducer.statistics()[0])

    @property
    def nonfinite(self) -> int:
        """How many of them are infinite or no number (stats=True)."""
        return self._reducer.statistics()[1]

    @property
    def copied_bytes(self) -> int:
        """Bytes of gradients that were copied because their memory is not the node's."""
        return self.communicator.copied_bytes

    def close(self) -> None:
        """Ends the session. The hook cannot be used any more."""
        self.communicator.close()
        self._outputs.clear()

    def _output(self, index: int, like: torch.Tensor) -> torch.Tensor:
        """Where a bucket's result goes: kept from step to step, like the bucket itself."""
        kept = self._outputs.get(index)
        if kept is None or kept.numel() != like.numel() or kept.dtype != like.dtype:
            kept = self._outputs[index] = torch.empty_like(like)
        return kept


def allreduce_hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(State(), allreduce_hook): the gradients'
    average over all ranks, computed by the node while the backward pass goes on."""
    index, gradients = bucket.index(), bucket.buffer()
    if state.wire is not None and gradients.dtype == torch.float32:
        small = gradients.to(state.wire)
        future = state._reducer.average(index, small, small, state.stats)
        return future.then(lambda done: gradients.copy_(done.value()))
    output = gradients if state.in_place else state._output(index, gradients)
    return state._reducer.average(index, gradients, output, state.stats)


def _group_name(group) -> str:
    """The same at every rank of the group."""
    return c10d._pg_names.get(group, "default") if hasattr(c10d, "_pg_names") else group.group_name
