"""Collectives of Tally for JAX on CPUs, also under jax.jit.

    import jax, tally.jax
    tally.jax.init()                     # of this rank, as torchrun started it

    @jax.jit
    def step(parameters, batch):
        gradients = jax.grad(loss)(parameters, batch)
        gradients = tally.jax.all_reduce(gradients, op="average")
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

The collectives take arrays of float16, bfloat16, float32, float64, int8, uint8, int32 or int64, and trees of such arrays.
Each array of a tree is an operation of its own. They work in jit, grad, vmap, scan, while_loop and checkpoint, on one
device of each process.

Errors. A wrong argument raises tally.Error where the function is traced. A failed operation makes the program fail at
every rank: JAX raises jax.errors.JaxRuntimeError, with Tally's words, where the result is used. All later programs with
collectives fail too, until all ranks call init() again.

Order. All ranks must run the same programs with collectives in the same order, so run them from one thread. A rank that
catches an error of its own in the middle of such a program and goes on makes the others fail at their deadline. After an
error before the first collective of a program nothing notices that, so do not go on."""

from __future__ import annotations

import atexit
import contextlib
from typing import Optional

import jax

from tally._error import Error
from tally.jax import _collectives, _jax
from tally.local import session_options

__all__ = ["all_gather", "all_reduce", "broadcast", "close", "init", "rank", "ranks", "reduce_scatter"]


def init(address: Optional[str] = None, rank: Optional[int] = None, ranks: Optional[int] = None, *, job: str = "jax",
         token: Optional[str] = None, deadline: float = 60.0) -> None:
    """Opens the session of this process, and closes the one before.

    address, rank, ranks, token: as tally.connect(). With jax.distributed, give jax.process_index() and
    jax.process_count().
    deadline: seconds after which an operation fails because not all ranks have started it. Ctrl-C ends a wait in JAX no
    earlier. Raises tally.Error. One thread at a time may call it."""
    if not 0 < deadline <= 86400:
        raise Error(f"deadline: {deadline} seconds; more than 0, at most a day", "invalid argument")
    options = session_options(job=job, rank=rank, ranks=ranks, address=address, token=token)
    close()
    _jax.open(**options, connect_timeout=max(deadline, 10.0), deadline=deadline)


def close() -> None:
    """Ends the session. Outstanding operations fail as cancelled. Does nothing without a session."""
    _jax.close()
    _collectives.forget_tokens()


def rank() -> int:
    """Returns this process's rank. Raises tally.Error before init()."""
    return _jax.rank()


def ranks() -> int:
    """Returns the number of ranks. Raises tally.Error before init()."""
    return _jax.ranks()


def all_reduce(x, op: str = "sum"):
    """Returns the element-wise op of all ranks' x, at every rank: arrays of x's shapes and types.

    x: an array or a tree of arrays, with the same shapes and types at every rank.
    op: "sum", "average", "min" or "max". Ranks are summed in rank order, so the bits are the same in each run.
    Sums and averages have derivatives: those of the sum of all ranks' losses."""
    return jax.tree.map(lambda leaf: _collectives.bind(leaf, "all_reduce", op), x)


def reduce_scatter(x, op: str = "sum"):
    """Returns this rank's equal share of the element-wise op of all ranks' x: rank r gets rows r*n/W to (r+1)*n/W.

    x: an array of shape (n, ...), or a tree of such arrays; the number of ranks W divides n. op: as for all_reduce()."""
    return jax.tree.map(lambda leaf: _collectives.bind(leaf, "reduce_scatter", op), x)


def all_gather(x):
    """Returns all ranks' x, joined along axis 0 in rank order.

    x: an array of shape (n, ...), or a tree of such arrays, with the same shapes and types at every rank. The results
    have the shape (W*n, ...), where W is the number of ranks."""
    return jax.tree.map(lambda leaf: _collectives.bind(leaf, "all_gather"), x)


def broadcast(x, root: int = 0):
    """Returns rank `root`'s x at every rank.

    x: an array or a tree of arrays, with the same shapes and types at every rank."""
    return jax.tree.map(lambda leaf: _collectives.bind(leaf, "broadcast", root=root), x)


@atexit.register
def _close_at_exit() -> None:
    # Other ranks may wait for what this rank's last programs have not started yet. JAX reports failures at its own exit.
    with contextlib.suppress(Exception):
        jax.effects_barrier()
    _jax.close()
