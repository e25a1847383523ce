"""torch.distributed's backend: each collective, each type, 1 to 4 ranks."""

import group
import torch
import torch.distributed as dist

import tally
import tally.torch

SUMMED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
          torch.int32, torch.int64]
MOVED = SUMMED + [torch.bool, torch.int16, torch.complex64]


def prepare(_rank, _ranks):
    dist.init_process_group("tally")


def finish():
    dist.barrier()
    dist.destroy_process_group()


def data(rank, shape, dtype, seed=0):
    random = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(0, 10, shape, generator=random).to(dtype)


def equal(got, wanted):
    assert got.dtype == wanted.dtype and torch.equal(got, wanted), (got, wanted)


def it_is_tally(rank, ranks):
    assert dist.get_backend() == "tally"
    assert (dist.get_rank(), dist.get_world_size()) == (rank, ranks)


def all_reduce(rank, ranks):
    for dtype in SUMMED:
        for shape in ((), (1,), (17,), (130, 70)):
            mine = [data(r, shape, dtype) for r in range(ranks)]
            for op, reference in ((dist.ReduceOp.SUM, lambda s: s.sum(0, dtype=dtype)),
                                  (dist.ReduceOp.MAX, lambda s: s.amax(0)),
                                  (dist.ReduceOp.MIN, lambda s: s.amin(0))):
                tensor = mine[rank].clone()
                dist.all_reduce(tensor, op=op)
                equal(tensor, reference(torch.stack(mine)))
    tensor = torch.tensor([1.0 + rank])
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    equal(tensor, torch.tensor([sum(range(1, ranks + 1)) / ranks]))
    flag = torch.tensor([rank == 0, False])
    dist.all_reduce(flag)
    equal(flag, torch.tensor([True, False]))


def what_tally_has_not_goes_through_gloo(rank, ranks):
    tensor = torch.full((3,), 2.0)
    dist.all_reduce(tensor, op=dist.ReduceOp.PRODUCT)
    equal(tensor, torch.full((3,), 2.0 ** ranks))
    sparse = torch.eye(3).to_sparse()
    dist.all_reduce(sparse)
    equal(sparse.to_dense(), ranks * torch.eye(3))
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    equal(bits, torch.tensor([(1 << ranks) - 1]))
    if ranks > 1:
        if rank == 0:
            dist.send(torch.arange(5.0), 1)
        elif rank == 1:
            got = torch.zeros(5)
            assert dist.recv(got, 0) == 0
            equal(got, torch.arange(5.0))
    parts = [torch.zeros(2) for _ in range(ranks)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank)), parts)
    if rank == 0:
        equal(torch.stack(parts)[:, 0], torch.arange(float(ranks)))
    got = torch.zeros(2)
    dist.scatter(got, [torch.full((2,), float(r)) for r in range(ranks)] if rank == 0 else None)
    equal(got, torch.full((2,), float(rank)))


def reduce(rank, ranks):
    for root in range(ranks):
        for dtype in SUMMED:
            mine = [data(r, (33,), dtype) for r in range(ranks)]
            tensor = mine[rank].clone()
            dist.reduce(tensor, root)
            equal(tensor, torch.stack(mine).sum(0, dtype=dtype) if rank == root else mine[rank])


def broadcast(rank, ranks):
    for root in range(ranks):
        for dtype in MOVED:
            tensor = data(rank, (5, 7), dtype)
            dist.broadcast(tensor, root)
            equal(tensor, data(root, (5, 7), dtype))


def all_gather(rank, ranks):
    for dtype in MOVED:
        mine = [data(r, (4, 3), dtype) for r in range(ranks)]
        out = [torch.zeros(4, 3, dtype=dtype) for _ in range(ranks)]
        dist.all_gather(out, mine[rank])
        equal(torch.stack(out), torch.stack(mine))
        flat = torch.zeros(ranks * 4, 3, dtype=dtype)
        dist.all_gather_into_tensor(flat, mine[rank])
        equal(flat, torch.cat(mine))


def reduce_scatter(rank, ranks):
    for dtype in SUMMED:
        mine = [data(r, (ranks, 6), dtype) for r in range(ranks)]
        total = torch.stack(mine).sum(0, dtype=dtype)
        out = torch.zeros(6, dtype=dtype)
        dist.reduce_scatter(out, list(mine[rank]))
        equal(out, total[rank])
        out.zero_()
        dist.reduce_scatter_tensor(out, mine[rank].flatten())
        equal(out, total[rank])


def coalesced(rank, ranks):
    tensors = [torch.full((n,), float(rank)) for n in (1, 1000, 300_000)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        assert (tensor == sum(range(ranks))).all()
    inputs = [torch.full((n,), float(rank)) for n in (2, 3)]
    outputs = [[torch.zeros(2), torch.zeros(3)] for _ in range(ranks)]
    dist.all_gather_coalesced(outputs, inputs)
    for r, of_rank in enumerate(outputs):
        assert all((tensor == r).all() for tensor in of_rank)


def tensors_of_any_form(rank, ranks):
    total = sum(range(1, ranks + 1))
    skewed = torch.arange(12.0).reshape(3, 4).t() * (rank + 1)
    dist.all_reduce(skewed)
    equal(skewed, torch.arange(12.0).reshape(3, 4).t() * total)
    columns = torch.zeros(4, 6)
    columns[:, 2] = rank + 1
    dist.all_reduce(columns[:, 2])
    assert (columns[:, 2] == total).all() and columns.sum() == 4 * total
    dist.broadcast(columns[:, 4], 0)
    empty = torch.zeros(0, 3)
    dist.all_reduce(empty)
    dist.broadcast(empty, 0)
    gathered = [torch.zeros(0) for _ in range(ranks)]
    dist.all_gather(gathered, torch.zeros(0))
    dist.reduce_scatter_tensor(torch.zeros(0), torch.zeros(0))
    needs_gradient = torch.ones(5, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(needs_gradient)
    assert (needs_gradient == ranks).all()


def asynchronous(rank, ranks):
    tensors = [torch.full((5000,), float(rank)) for _ in range(300)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work, tensor in zip(works, tensors):
        assert work.wait()
        assert work.is_completed() and work.is_success()
        assert (tensor == sum(range(ranks))).all()
    future = dist.all_reduce(torch.full((3,), float(rank)), async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert (doubled.wait() == 2 * sum(range(ranks))).all()


def sub_groups(rank, ranks):
    if ranks < 3:
        return
    halves = [[r for r in range(ranks) if r % 2 == 0], [r for r in range(ranks) if r % 2 == 1]]
    groups = [dist.new_group(half) for half in halves]
    mine = rank % 2
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=groups[mine])
    assert tensor.item() == sum(halves[mine])
    root = halves[mine][-1]  # a rank of the world
    tensor = torch.tensor([rank])
    dist.broadcast(tensor, root, group=groups[mine])
    assert tensor.item() == root
    dist.barrier()
    dist.all_reduce(tensor)
    for one in groups:
        if one is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(one)


def objects(rank, ranks):
    found = [None] * ranks
    dist.all_gather_object(found, {"rank": rank, "text": "x" * (rank + 1) * 100})
    assert [f["rank"] for f in found] == list(range(ranks))
    box = [("from", 0)] if rank == 0 else [None]
    dist.broadcast_object_list(box, 0)
    assert box == [("from", 0)]


def big_tensors_are_not_copied(rank, ranks):
    before = tally.torch.copied_bytes()
    tensor = torch.full((1 << 20,), float(rank))
    assert tally.torch.is_shared(tensor)
    assert tensor.data_ptr() % 4096 == 0
    dist.all_reduce(tensor)
    assert (tensor == sum(range(ranks))).all()
    out = torch.empty(ranks << 20)
    dist.all_gather_into_tensor(out, tensor)
    dist.broadcast(tensor, 0)
    assert tally.torch.copied_bytes() == before


def sessions_use_tensors_in_place(rank, ranks):
    with tally.connect(job=f"tensors-{ranks}") as session:
        tensor = torch.full((400_000,), float(rank + 1))
        assert tally.torch.is_shared(tensor)
        session.all_reduce(tensor).wait()
        assert (tensor == sum(range(1, ranks + 1))).all()
        assert session.copied_bytes == 0
    assert torch.from_numpy(tally.empty(1000)).numel() == 1000
    assert tally.torch.is_shared(torch.from_numpy(tally.empty(10)))


def memory_is_used_again(rank, ranks):
    from tally.torch import _torch
    for _ in range(20):
        tensor = torch.ones(3 << 20)
        dist.all_reduce(tensor)
        del tensor
    assert _torch.pool_usage()["segments"] <= 3, _torch.pool_usage()


def a_child_of_a_fork_has_memory_of_its_own(rank, ranks):
    import os
    tensor = torch.full((1 << 19,), 1.0)
    assert tally.torch.is_shared(tensor)
    child = os.fork()
    if child == 0:
        good = bool((tensor == 1).all())
        tensor.fill_(7)
        os._exit(0 if good and bool((tensor == 7).all()) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert (tensor == 1).all(), "the child wrote into its parent's memory"


def inference_mode(rank, ranks):
    """The thread that copies the result may be another than the one in this mode."""
    with torch.inference_mode():
        outputs = [torch.zeros(3) for _ in range(ranks)]
        work = dist.all_gather(outputs, torch.full((3,), float(rank)), async_op=True)
        work.get_future().wait()
        equal(torch.stack(outputs)[:, 0], torch.arange(float(ranks)))


def wrong_arguments(rank, ranks):
    group.raises("elements", dist.all_gather_into_tensor, torch.zeros(ranks * 3 + 1), torch.zeros(3))
    group.raises("elements", dist.reduce_scatter_tensor, torch.zeros(3), torch.zeros(ranks * 3 + 1))
    group.raises("different types", dist.all_gather_into_tensor,
           torch.zeros(ranks * 3, dtype=torch.int32), torch.zeros(3))


def ranks_that_disagree(rank, ranks):
    if ranks == 1:
        return
    try:
        dist.all_reduce(torch.zeros(5 + (rank == ranks - 1)))
        raise AssertionError("not noticed")
    except tally.Error as error:
        assert error.status == "mismatch" and error.culprit is not None, error


CASES = {case.__name__: case for case in (
    it_is_tally, all_reduce, what_tally_has_not_goes_through_gloo, reduce, broadcast, all_gather,
    reduce_scatter, coalesced, tensors_of_any_form, asynchronous, sub_groups, objects,
    big_tensors_are_not_copied, sessions_use_tensors_in_place, memory_is_used_again,
    a_child_of_a_fork_has_memory_of_its_own, inference_mode, wrong_arguments, ranks_that_disagree)}

if __name__ == "__main__":
    group.WarmProgram.imports = ("torch",)
    group.main(CASES, prepare=prepare, finish=finish)
