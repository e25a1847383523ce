"""Gradient aggregation by a Tally summation node.

    import numpy, tally
    with tally.Session(job="demo", rank=0, ranks=2) as session:
        gradients = tally.empty(session, 1000, numpy.float32)
        ...
        session.all_reduce(gradients, op="average").wait()

tally.torch has the hook for DistributedDataParallel and the backend of torch.distributed;
`python3 -m tally.run` starts the ranks of a training script.
"""

from __future__ import annotations

from tally._core import Handle, Session
from tally._error import Error

__all__ = ["Error", "Handle", "Session", "empty"]


def empty(session: Session, shape, dtype="float32"):
    """A NumPy array of `shape` in memory that the node uses in place; zeros. It lives as long as
    the session, and must not be used after session.close()."""
    import numpy
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    memory = session._allocate(max(1, count * dtype.itemsize))
    return numpy.frombuffer(memory, dtype=dtype, count=count).reshape(shape)
