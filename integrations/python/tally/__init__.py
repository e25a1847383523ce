"""Gradient aggregation by a Tally summation node.

    import numpy, tally
    with tally.connect() as session:              # of this rank, as torchrun or tally.run started it
        gradients = tally.empty(1000, numpy.float32)
        ...
        session.all_reduce(gradients, op="average").wait()

tally.torch has the hook for DistributedDataParallel and the backend of torch.distributed;
`python3 -m tally.run` starts the ranks of a training script.
"""

from __future__ import annotations

from tally._core import Handle, Region, Session
from tally._error import Error
from tally.local import connect

__all__ = ["Error", "Handle", "Region", "Session", "connect", "empty"]


def empty(shape, dtype="float32"):
    """Returns a NumPy array of `shape`, not initialized. Its memory is such that every node on this machine
    uses it in place, in any session. The memory is freed with the last array on it."""
    import numpy
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if count < 0:
        raise ValueError(f"shape {shape}: no dimension may be negative")
    region = Region(max(1, count * dtype.itemsize))
    return numpy.frombuffer(region, dtype=dtype, count=count).reshape(shape)
