"""The collectives as a primitive of JAX.

All collectives have one ordered effect. So JAX gives the calls of a program, of its loops and of consecutive programs one
order, which XLA keeps. Each rank traces the same program, so the order is the same at all ranks, and the n-th operation of
each rank is the n-th operation of the others. A number for each place in the source would not do: JAX traces an inner
function once and calls it twice, and a loop or a recomputation repeats a place.

Only the starts of operations are ordered. The results arrive in any order, so operations overlap."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import numpy
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

# JAX has no public names for these. They are what jax.experimental.io_callback(ordered=True) is made of.
from jax._src import core, dispatch, effects

from tally._error import Error
from tally.jax import _jax

# The numbers of tally_kind and tally_op in tally.h.
KINDS = {"all_reduce": 1, "broadcast": 3, "reduce_scatter": 4, "all_gather": 5}
OPS = {"sum": 0, "average": 1, "min": 2, "max": 3}
TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")


class _TallyEffect(effects.Effect):
    def __str__(self) -> str:
        return "Tally"


_EFFECT = _TallyEffect()
for _kind in (effects.ordered_effects, effects.lowerable_effects, effects.control_flow_allowed_effects,
              effects.custom_derivatives_allowed_effects, effects.remat_allowed_effects):
    _kind.add_type(_TallyEffect)

jax.ffi.register_ffi_target("tally_start", _jax.start_handler(), platform="cpu")
jax.ffi.register_ffi_target("tally_finish", _jax.finish_handler(), platform="cpu")
_collective = Primitive("tally_collective")


def bind(x, kind: str, op: str = "sum", root: int = 0):
    """Returns the result of one operation. Raises tally.Error when an argument is wrong."""
    ranks = _jax.ranks()
    x = jax.numpy.asarray(x)
    if x.dtype.name not in TYPES:
        raise Error(f"elements of type {x.dtype.name}; tally sums {', '.join(TYPES)}", "unsupported")
    if op not in OPS:
        raise Error(f"op {op!r} is not one of {', '.join(map(repr, OPS))}", "invalid argument")
    if not 0 <= root < ranks:
        raise Error(f"root {root}: the session has ranks 0 to {ranks - 1}", "invalid argument")
    if kind in ("reduce_scatter", "all_gather") and x.ndim == 0:
        raise Error(f"{kind} of a scalar: give an array with an axis to divide or to join", "invalid argument")
    if kind == "reduce_scatter" and x.shape[0] % ranks != 0:
        raise Error(f"reduce_scatter: axis 0 has {x.shape[0]} elements, which {ranks} ranks cannot share equally",
                    "invalid argument")
    return _collective.bind(x, kind=kind, op=op, root=root, ranks=ranks)


def forget_tokens() -> None:
    """Forgets the order of the programs so far. After a failure, JAX passes it on to all later programs."""
    dispatch.runtime_tokens.current_tokens.pop(_EFFECT, None)


_collective.def_impl(functools.partial(dispatch.apply_primitive, _collective))


@_collective.def_effectful_abstract_eval
def _abstract_result(x, *, kind, op, root, ranks):
    del op, root
    shape = x.shape
    if kind == "reduce_scatter":
        shape = (shape[0] // ranks, *shape[1:])
    elif kind == "all_gather":
        shape = (shape[0] * ranks, *shape[1:])
    return core.ShapedArray(shape, x.dtype), {_EFFECT}


def _lower(ctx, x, *, kind, op, root, ranks):
    size = math.prod(ctx.avals_in[0].shape)
    count = size * ranks if kind == "all_gather" else size
    if count == 0:
        ctx.set_tokens_out(ctx.tokens_in)
        return [mlir.ir_constant(numpy.zeros(ctx.avals_out[0].shape, ctx.avals_out[0].dtype))]
    number = core.ShapedArray((), numpy.dtype("uint64"))
    start = jax.ffi.build_ffi_lowering_function("tally_start", has_side_effect=True)
    token, started = start(
        dataclasses.replace(ctx, avals_in=[core.abstract_token, *ctx.avals_in], avals_out=[core.abstract_token, number]),
        ctx.tokens_in.get(_EFFECT), x, kind=numpy.int32(KINDS[kind]), op=numpy.int32(OPS[op]), root=numpy.int32(root),
        ranks=numpy.int32(ranks), count=numpy.int64(count)).results
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({_EFFECT: token})))
    finish = jax.ffi.build_ffi_lowering_function("tally_finish", has_side_effect=True)
    return finish(dataclasses.replace(ctx, avals_in=[number]), started).results


mlir.register_lowering(_collective, _lower, platform="cpu")


def _batch(arguments, axes, *, kind, **rest):
    (x,), (axis,) = arguments, axes
    if kind in ("reduce_scatter", "all_gather"):  # axis 0 is theirs
        x, axis = jax.numpy.moveaxis(x, axis, 1), 1
    return _collective.bind(x, kind=kind, **rest), axis


batching.primitive_batchers[_collective] = _batch


def _jvp(primals, tangents, *, kind, op, **rest):
    (x,), (tangent,) = primals, tangents
    y = _collective.bind(x, kind=kind, op=op, **rest)
    if type(tangent) is ad.Zero:
        return y, ad.Zero(core.get_aval(y).to_tangent_aval())
    if op in ("min", "max"):
        raise Error(f"{kind} with op {op!r} has no derivative; use jax.lax.stop_gradient", "unsupported")
    return y, _collective.bind(tangent, kind=kind, op=op, **rest)


def _transpose(cotangent, x, *, kind, op, root, ranks):
    """Derivatives are those of the sum of all ranks' losses."""
    if type(cotangent) is ad.Zero:
        return [ad.Zero(x.aval)]
    same = functools.partial(_collective.bind, cotangent, root=root, ranks=ranks)
    if kind == "all_reduce":
        return [same(kind=kind, op=op)]
    if kind == "all_gather":
        return [same(kind="reduce_scatter", op="sum")]
    if kind == "reduce_scatter":
        gathered = same(kind="all_gather", op="sum")
        return [gathered / ranks if op == "average" else gathered]
    total = same(kind="all_reduce", op="sum")
    return [total if _jax.rank() == root else jax.numpy.zeros_like(total)]


ad.primitive_jvps[_collective] = _jvp
ad.primitive_transposes[_collective] = _transpose
