"""The communication hook for DistributedDataParallel."""

# This file has no postponed annotations, because torch compares those of the hook with its classes.
import math
import os
import threading
import weakref
from typing import Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import tally.torch._torch as _torch
from tally.torch._backend import backend_of
from tally._error import Error
from tally.torch._connect import connect, connect_again
from tally.torch._return import Entry

_WIRE = {None: None, "f32": None, "bf16": torch.bfloat16, "f16": torch.float16}
_states = 0


class State:
    """The state of the hook: a session of this rank with a node.

    process_group  the group of the DistributedDataParallel, with any backend; None: the default group
    wire           "bf16" or "f16": gradients travel in half the bytes, are summed in float32, and are
                   rounded once; None: gradients travel as they are
    stats          True: the node also counts non-finite elements and sums squares, for clipping and loss scaling
    in_place       True: results overwrite the buckets. False: they go to memory of their own, and a lost node
                   costs no gradients. None: False where that costs nothing. That is everywhere except with
                   gradient_as_bucket_view, where torch would copy the results back
    deadline       seconds after which a bucket fails when not all ranks have announced it; None: the group's time-out

    job            the name of the job, the same at all ranks and of one State alone; None: a name of its own. With
                   a name, a rank that the job has lost may return: see synchronize()
    rank, ranks    of a process that returns to this job. Its process group has this process alone

    Buckets may also be on CUDA devices. Then results overwrite the buckets, and the loss of a node is an error.

    Use one State for one DistributedDataParallel. Every rank must make its States in the same order.
    """

    def __init__(self, process_group=None, *, wire: Optional[str] = None, stats: bool = False,
                 in_place: Optional[bool] = None, deadline: Optional[float] = None, job: Optional[str] = None,
                 rank: Optional[int] = None, ranks: Optional[int] = None) -> None:
        if wire not in _WIRE:
            raise ValueError(f"wire={wire!r}: must be one of None, 'bf16', 'f16'")
        returns = rank is not None
        if returns != (ranks is not None) or (returns and job is None):
            raise ValueError("a rank that returns needs all of job, rank and ranks")
        global _states
        _states += 1
        group = process_group if process_group is not None else c10d._get_default_group()
        self.wire = _WIRE[wire]
        self.stats = stats
        self.in_place = in_place
        self._deadline = _timeout_of(group) if deadline is None else deadline
        self._rank = dist.get_rank(group) if rank is None else rank
        self._ranks = dist.get_world_size(group) if ranks is None else ranks
        self._job, self._returns_to = job, job if returns else None
        self._entry = None if job is None else Entry(returns, self.wire, stats)
        self._store = dist.PrefixStore(f"tally-hook-{_states}-{group.group_name}",
                                       c10d._get_default_store())
        self._generation = 0
        self._device_reducer: Optional[_torch.DeviceReducer] = None
        self._outputs: dict[int, torch.Tensor] = {}
        self._views: dict[int, tuple[int, bool]] = {}
        self._is_open = False  # a rank that returns has a session after its first pass
        self._end: Callable[[], object] = self._outputs.clear
        if not returns:
            self._open()

    def _open(self) -> None:
        self.communicator: _torch.Communicator = self._connect()
        self._reducer = _torch.BucketReducer(self.communicator)
        self._is_open = True
        # The thread refers to the reducer only, so that a dropped State can be collected.
        rescuer = threading.Thread(target=_rescue, args=(weakref.ref(self), self._reducer),
                                   name="tally-rescue", daemon=True)
        rescuer.start()
        # Runs when the State is closed or dropped, and when the interpreter ends. The thread must end then.
        self._end = weakref.finalize(self, _end, self._reducer, rescuer)

    def _connect(self, lost: Optional[str] = None) -> "_torch.Communicator":
        """Opens a session with the node that rank 0 names; after the loss of a node, with the next node."""
        if self._returns_to is not None:
            return connect_again(self._returns_to, self._rank, self._ranks, self._deadline)
        store = dist.PrefixStore(str(self._generation), self._store)
        return connect(store, self._rank, self._ranks, self._deadline, lost, self._job)

    @property
    def contributors(self) -> int:
        """The number of ranks whose gradients are in the averages of the last backward pass: with
        TALLY_ON_RANK_LOSS=finish fewer than the group has when ranks are lost. Of several numbers the least."""
        if not self._is_open:
            return 0
        found = [] if self._device_reducer is not None else self._reducer.presence().values()
        return min((contributors for contributors, _ in found), default=self.communicator.contributors)

    def synchronize(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Gives ranks that have returned the state of the others, and returns whether it did.

        All ranks call it after each step, with the tensors that are the same at all ranks after a step: parameters, the
        optimizer's state, the number of the step. It costs nothing but a small operation beside the backward pass
        unless a rank has returned. At a rank that returns, it returns False for the first two steps, whose results do
        not count."""
        if self._entry is None:
            raise Error("a State without the name of a job cannot have ranks that return: State(job=...)", "invalid argument")
        return self._entry.synchronize(self._reducer if self._is_open else None, tensors)

    @property
    def gradient_norm(self) -> float:
        """The 2-norm of the averaged gradients of the last backward pass (stats=True), equal at every rank. It
        leaves out non-finite elements, which nonfinite counts."""
        return math.sqrt(self._statistics()[0])

    @property
    def nonfinite(self) -> int:
        """The number of infinite or NaN elements in these gradients (stats=True)."""
        return self._statistics()[1]

    def _statistics(self) -> "tuple[float, int]":
        return (self._device_reducer or self._reducer).statistics()

    @property
    def copied_bytes(self) -> int:
        """Bytes of gradients that were copied, because the node cannot use their memory in place."""
        return self.communicator.copied_bytes

    @property
    def copied_on_devices(self) -> int:
        """Bytes that were copied on devices, between buckets and the buffers that the node uses."""
        return self._device_reducer.copied_bytes if self._device_reducer is not None else 0

    def close(self) -> None:
        """Ends the session. The hook cannot be used any more."""
        self._end()
        self._outputs.clear()

    def _on_devices(self) -> "_torch.DeviceReducer":
        if self._device_reducer is None:
            self._device_reducer = _torch.DeviceReducer(self.communicator, self._deadline)
        return self._device_reducer

    def _output(self, bucket: dist.GradBucket, index: int, like: torch.Tensor) -> torch.Tensor:
        """Returns the tensor for a bucket's result. It is kept from step to step, like the bucket itself."""
        if self.in_place or (self.in_place is None and self._is_view(bucket, index, like)):
            return like
        kept = self._outputs.get(index)
        if kept is None or kept.numel() != like.numel() or kept.dtype != like.dtype:
            kept = self._outputs[index] = torch.empty_like(like)
        return kept

    def _is_view(self, bucket: dist.GradBucket, index: int, buffer: torch.Tensor) -> bool:
        """Whether the parameters' gradients are views of the bucket (gradient_as_bucket_view)."""
        address, is_view = self._views.get(index, (0, False))
        if address != buffer.data_ptr():
            end = buffer.data_ptr() + buffer.numel() * buffer.element_size()
            gradients = [p.grad for p in bucket.parameters() if p.grad is not None]
            is_view = any(buffer.data_ptr() <= g.data_ptr() < end for g in gradients)
            self._views[index] = (buffer.data_ptr(), is_view)
        return is_view


def _end(reducer: "_torch.BucketReducer", rescuer: threading.Thread) -> None:
    reducer.close()
    if rescuer is not threading.current_thread():
        rescuer.join(timeout=10)


def _rescue(reference: "weakref.ref[State]", reducer: "_torch.BucketReducer") -> None:
    """Opens another session when the node is lost. The node is at the same address, where a new node may
    listen by then, or it is a new node on this machine. In a job that goes on without lost ranks it opens none: the
    others may have left this rank out."""
    while reducer.wait_until_stranded():
        state = reference()
        if state is None:
            return
        if os.environ.get("TALLY_ON_RANK_LOSS") == "finish":
            reducer.give_up("the nodes were lost, and the job may go on without this rank: start its process again, with "
                            "State(job=, rank=, ranks=)")
            return
        state._generation += 1
        try:
            found = state._connect(state.communicator.address)
            reducer.resume(found)
        except Exception as error:  # of any kind: the waiting threads must get it
            reducer.give_up(f"the node was lost, and there is no other: {error}")
        else:
            lost, state.communicator = state.communicator, found
            lost.close()
        del state


def allreduce_hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(State(), allreduce_hook). The node computes the average of
    the gradients over all ranks while the backward pass goes on."""
    if state._entry is None:
        return _average(state, bucket, bucket.buffer())
    if state._entry.phase == "alone":
        state._entry.leave_alone(bucket.index())
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future
    if state._entry.phase == "joins" and bucket.index() == 0:
        state._open()
    future = _average(state, bucket, state._entry.contribution(bucket.index(), bucket.buffer()))
    if bucket.is_last():
        state._entry.end_pass(state._reducer)
    return future


def _average(state: State, bucket: dist.GradBucket, contribution: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
    index, gradients = bucket.index(), bucket.buffer()
    if gradients.device.type != "cpu":
        wire = state.wire if gradients.dtype == torch.float32 else None
        return state._on_devices().average(index, gradients, wire, state.stats).get_future()
    if state.wire is not None and gradients.dtype == torch.float32:
        small = contribution.to(state.wire)
        future = state._reducer.average(index, small, small, state.stats).get_future()
        return future.then(lambda done: gradients.copy_(done.value()))
    output = state._output(bucket, index, gradients)
    return state._reducer.average(index, contribution, output, state.stats).get_future()


def _timeout_of(group) -> float:
    """Returns the group's time-out in seconds."""
    return backend_of(group).options._timeout.total_seconds()
