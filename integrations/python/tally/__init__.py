"""Gradient aggregation by a Tally summation node.

    import numpy, tally
    with tally.connect() as session:              # of this rank, as torchrun started it
        gradients = tally.empty(1000, numpy.float32)
        ...
        session.all_reduce(gradients, op="average").wait()

tally.torch has the hook for DistributedDataParallel and the backend of torch.distributed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tally._core import Handle, Region, Session
    from tally._error import Error
    from tally.local import connect

__all__ = ["Error", "Handle", "Region", "Session", "connect", "empty"]
_HOMES = {"Handle": "_core", "Region": "_core", "Session": "_core", "Error": "_error", "connect": "local"}


def __getattr__(name: str):
    """Loads what is used: torch imports this package to find the backend, also in programs without Tally."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tally' has no attribute '{name}'")
    from importlib import import_module
    value = globals()[name] = getattr(import_module(f"tally.{_HOMES[name]}"), name)
    return value


def empty(shape, dtype="float32"):
    """Returns a NumPy array of `shape`, not initialized. Its memory is such that every node on this machine
    uses it in place, in any session. The memory is freed with the last array on it."""
    import numpy
    from tally._core import Region
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if count < 0:
        raise ValueError(f"shape {shape}: no dimension may be negative")
    region = Region(max(1, count * dtype.itemsize))
    return numpy.frombuffer(region, dtype=dtype, count=count).reshape(shape)
