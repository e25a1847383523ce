"""tally.jax: each collective, each type, under jit, in loops, several at once, and failures; 1 to 3 ranks."""

import group
import jax
import jax.numpy as jnp
import numpy as np

import tally
import tally.jax
from tally.jax import all_gather, all_reduce, broadcast, reduce_scatter

jax.config.update("jax_enable_x64", True)
TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]
DEADLINE = 20.0


def prepare(_rank, _ranks):
    tally.jax.init(deadline=DEADLINE)


def finish():
    tally.jax.close()


def data(rank, shape, dtype, seed=0):
    return np.random.default_rng(100 * seed + rank).integers(0, 10, shape).astype(jnp.dtype(dtype))


def equal(got, wanted):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and (got == wanted).all(), (got, wanted)


def raises(kind, part, call):
    try:
        jax.block_until_ready(call())
    except kind as error:
        assert part in str(error), error
        return error
    raise AssertionError(f"no error with {part!r}")


def it_has_a_session(rank, ranks):
    assert (tally.jax.rank(), tally.jax.ranks()) == (rank, ranks)


def all_types(rank, ranks):
    @jax.jit
    def collectives(x):
        return (all_reduce(x), all_reduce(x, "min"), all_reduce(x, op="max"), reduce_scatter(x), all_gather(x),
                broadcast(x, ranks - 1))
    for dtype in TYPES:
        mine = [data(r, (2 * ranks, 5), dtype) for r in range(ranks)]
        stack = np.stack(mine)
        total = stack.sum(0, dtype=stack.dtype)
        results = [collectives(mine[rank])]
        if dtype == "float32":
            with jax.disable_jit():
                results.append(collectives(mine[rank]))
        for result in results:
            for got, wanted in zip(result, (total, stack.min(0), stack.max(0), total[2 * rank:2 * rank + 2],
                                            np.concatenate(mine), mine[-1]), strict=True):
                equal(got, wanted)
    equal(all_reduce(jnp.float32(rank), "average"), np.float32((ranks - 1) / 2))


def shapes_and_trees(rank, ranks):
    equal(all_reduce(jnp.zeros((0, 3))), np.zeros((0, 3)))
    equal(all_gather(jnp.zeros((0, 3))), np.zeros((0, 3)))
    tree = {"a": jnp.full((3, 1), rank), "b": [jnp.float32(1), jnp.ones(100_000, jnp.float16)]}
    got = jax.jit(all_reduce)(tree)
    equal(got["a"], np.full((3, 1), sum(range(ranks))))
    equal(got["b"][0], np.float32(ranks))
    equal(got["b"][1], np.full(100_000, ranks, np.float16))
    equal(jax.vmap(reduce_scatter, in_axes=1)(jnp.ones((ranks, 4))), np.full((4, 1), float(ranks)))
    equal(jax.vmap(all_reduce)(jnp.ones((3, 4))), np.full((3, 4), float(ranks)))


def in_loops(rank, ranks):
    @jax.jit
    def scanned(x):
        def body(carry, step):
            total = all_reduce(carry + step, "average")
            return total, all_reduce(step * (rank + 1))  # does not depend on the iteration before
        return jax.lax.scan(body, x, jnp.arange(50.0), unroll=3)
    carry, sums = scanned(jnp.full(1000, float(rank)))
    equal(carry, np.full(1000, (ranks - 1) / 2 + sum(range(50))))
    equal(sums, np.arange(50.0) * sum(range(1, ranks + 1)))

    @jax.jit
    def until_large(x):
        return jax.lax.while_loop(lambda v: v[0] < 1000, lambda v: all_reduce(v + 1), x)
    wanted = 1
    while wanted < 1000:
        wanted = (wanted + 1) * ranks
    equal(until_large(jnp.ones(3, jnp.int32)), np.full(3, wanted, np.int32))
    branch = jax.jit(lambda i, x: jax.lax.cond(i > 0, all_reduce, lambda y: all_reduce(2 * y), x))
    equal(branch(1, jnp.ones(2)), np.full(2, float(ranks)))
    equal(branch(0, jnp.ones(2)), np.full(2, 2.0 * ranks))


def one_place_many_calls(rank, ranks):
    """An inner function is traced once, and XLA may run independent thunks of a large program in any order."""
    inner = jax.jit(lambda x: all_reduce(x * 1.0))

    @jax.jit
    def outer(xs):
        sums = [inner(jnp.sin(x) @ jnp.cos(x)) for x in xs]
        for _ in range(2):
            sums = [inner(s) / ranks for s in sums]
        return sums
    for seed in range(3):
        mine = [[jnp.full((100, 100), 0.001 * (i + 1) * (r + 1 + seed)) for i in range(20)] for r in range(ranks)]
        wanted = [sum(np.sin(mine[r][i]) @ np.cos(mine[r][i]) for r in range(ranks)) for i in range(20)]
        for got, want in zip(outer(mine[rank]), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-9)


def programs_in_flight(rank, ranks):
    """Consecutive programs overlap in Python; none is awaited before the last."""
    first = jax.jit(lambda x: all_reduce(x @ x))
    second = jax.jit(lambda x: (all_reduce(x), all_reduce(x + 1, "max")))
    x = jnp.full((200, 200), 0.1 * (rank + 1))
    results = [(first(x + i), second(x * i)) for i in range(20)]
    for i, (one, (two, three)) in enumerate(results):
        mine = [np.full((200, 200), 0.1 * (r + 1)) for r in range(ranks)]
        np.testing.assert_allclose(one, sum((m + i) @ (m + i) for m in mine))
        np.testing.assert_allclose(two, sum(m * i for m in mine))
        np.testing.assert_allclose(three, mine[-1] * i + 1)


def more_than_the_credit(rank, ranks):
    many = jax.jit(lambda x: [all_reduce(x + i) for i in range(300)])
    for i, got in enumerate(many(jnp.float32(rank))):
        equal(got, np.float32(sum(range(ranks)) + ranks * i))


def uneven_ranks(rank, ranks):
    """The last rank compiles and traces its function more often than the others, and so it calls it later."""
    step = jax.jit(lambda x: all_reduce(x) + all_reduce(2 * x))
    if rank == ranks - 1:
        step.lower(jnp.ones(7)).compile()
        jax.make_jaxpr(step)(jnp.ones(8))
    for _ in range(3):
        equal(step(jnp.ones(7)), np.full(7, 3.0 * ranks))


def derivatives(rank, ranks):
    x = jnp.arange(1.0, 2 * ranks + 1) * (rank + 1)
    equal(jax.grad(lambda v: all_reduce(v).sum())(x), np.full(2 * ranks, float(ranks)))
    equal(jax.jit(jax.grad(lambda v: all_reduce(v, "average").sum()))(x), np.ones(2 * ranks))
    equal(jax.grad(lambda v: all_gather(v).sum())(x), np.full(2 * ranks, float(ranks)))
    equal(jax.grad(lambda v: (reduce_scatter(v) * (rank + 1)).sum())(x), np.repeat(np.arange(1.0, ranks + 1), 2))
    equal(jax.grad(lambda v: broadcast(v, 0).sum())(x), np.full(2 * ranks, float(ranks) * (rank == 0)))
    y, tangent = jax.jvp(all_reduce, (x,), (jnp.ones_like(x),))
    equal(tangent, np.full(2 * ranks, float(ranks)))

    @jax.jit
    @jax.grad
    def through_a_loop(v):
        step = jax.checkpoint(lambda carry, _: (all_reduce(jnp.sin(carry), "average"), None))
        return jax.lax.scan(step, v, None, length=3)[0].sum()
    same = jnp.full(4, 0.5)
    wanted = jax.grad(lambda v: jnp.sin(jnp.sin(jnp.sin(v))).sum())(same)
    np.testing.assert_allclose(through_a_loop(same), wanted)
    raises(tally.Error, "no derivative", lambda: jax.grad(lambda v: all_reduce(v, "max").sum())(x))


def wrong_arguments(rank, ranks):
    for dtype in ("bool", "int16", "complex64"):
        raises(tally.Error, dtype, lambda: jax.jit(all_reduce)(jnp.zeros(3, dtype)))
    raises(tally.Error, "'product'", lambda: all_reduce(jnp.zeros(3), "product"))
    raises(tally.Error, f"root {ranks}", lambda: broadcast(jnp.zeros(3), ranks))
    raises(tally.Error, "scalar", lambda: all_gather(jnp.float32(1)))
    if ranks > 1:
        raises(tally.Error, "axis 0", lambda: reduce_scatter(jnp.zeros(ranks + 1)))
    equal(all_reduce(jnp.ones(3)), np.full(3, float(ranks)))  # nothing has started, so the session goes on


def ranks_that_disagree(rank, ranks):
    if ranks == 1:
        return
    step = jax.jit(lambda x: all_reduce(x) + 1)
    error = raises(jax.errors.JaxRuntimeError, "mismatch: ", lambda: step(jnp.zeros(5 + (rank == ranks - 1))))
    assert "rank" in str(error), error
    raises(jax.errors.JaxRuntimeError, "mismatch: ", lambda: step(jnp.zeros(5)))  # until init()
    tally.jax.init(deadline=DEADLINE, job="jax-again")
    equal(step(jnp.zeros(5)), np.ones(5))


def program_that_fails_between(rank, ranks):
    """After a failure of rank 0's own, its operations cannot take the place of others."""
    def callback(x):
        if rank == 0 and ranks > 1:
            raise ValueError("rank 0 fails")
        return x
    all_reduce(jnp.ones(3))  # all ranks are here, so a short deadline covers what they compile
    tally.jax.init(deadline=6.0 if group.SOAK else 3.0, job="jax-between")
    step = jax.jit(lambda x: all_reduce(jax.pure_callback(callback, x, all_reduce(x))))
    if ranks == 1:
        equal(step(jnp.ones(3)), np.ones(3))
        return
    raises(jax.errors.JaxRuntimeError, "fails" if rank == 0 else "deadline", lambda: step(jnp.ones(3)))
    raises(jax.errors.JaxRuntimeError, "", lambda: jax.jit(all_reduce)(jnp.ones(3)))
    tally.jax.init(deadline=DEADLINE, job="jax-last")
    equal(all_reduce(jnp.ones(3)), np.full(3, float(ranks)))


def end_with_work_outstanding(rank, ranks):
    """The process ends right after this: nothing may hang or print an error."""
    jax.jit(lambda x: all_reduce(all_reduce(x @ x)))(jnp.ones((300, 300)))


CASES = {case.__name__: case for case in (
    it_has_a_session, all_types, shapes_and_trees, in_loops, one_place_many_calls, programs_in_flight,
    more_than_the_credit, uneven_ranks, derivatives, wrong_arguments, ranks_that_disagree, program_that_fails_between,
    end_with_work_outstanding)}

if __name__ == "__main__":
    group.WarmProgram.imports = ("jax",)
    group.main(CASES, widths=(1, 2, 3), prepare=prepare)
