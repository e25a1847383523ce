"""torch.distributed's ways to train in parallel, over the backend "tally". The losses are gloo's, and a second run
begins with the same bits. Outside of tier soak a way trains with the numbers of ranks in WAYS, and again for fewer steps.

Also what programs use beside the collectives: point-to-point, objects, meshes, futures, timeouts, profiles."""

from datetime import timedelta

import group
import torch
import torch.distributed as dist
import trainings

SOAK = group.SOAK
STEPS = 50
STEPS_AGAIN = STEPS if SOAK else 10
CPU = torch.device("cpu")


def prepare(_rank, _ranks):
    dist.init_process_group("tally")  # without an import of tally: torch finds it by the entry point torch.backends
    torch.set_num_threads(1)


def finish():
    dist.barrier()
    dist.destroy_process_group()


def learns_as_with_gloo(way):
    def case(rank, ranks):
        if not SOAK and ranks not in WAYS[way]:
            return
        wanted, found = (trainings.losses(way, backend, ranks, STEPS) for backend in ("gloo", "tally"))
        again = trainings.losses(way, "tally", ranks, STEPS_AGAIN)
        assert found[:len(again)] == again, "other bits in another run"
        apart = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(found, wanted))
        print(f"{way.__name__}: loss {wanted[ranks - 1]:.4f} to {wanted[-1]:.4f}, relative difference {apart:.1e}")
        assert wanted[-1] < wanted[ranks - 1] / 4
        # A sum of another order can round to another bfloat16.
        assert apart <= (1e-2 if way is trainings.hook_in_mixed_precision else 1e-6), apart
    case.__name__ = way.__name__
    return case


def torch_finds_the_backend(rank, ranks):
    assert dist.get_backend() == "tally" and dist.get_backend_config() == "cpu:tally"
    assert (dist.get_rank(), dist.get_world_size()) == (rank, ranks)
    backend = dist.group.WORLD._get_backend(CPU)
    assert backend.name() == "tally" and backend.supports_splitting and backend.supports_tensor_alloc(CPU)


def sharded_training_copies_nothing(rank, ranks):
    """Parameters of 3 MB and of 20 bytes, in memory that FSDP takes from the group."""
    import tally.torch
    mesh = trainings.mesh_of("tally", ranks)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(1500, 500), torch.nn.Tanh(), torch.nn.Linear(500, 5), torch.nn.Linear(5, 5))
    trainings.sharded(model, mesh, only=torch.nn.Linear)
    for module in (model, *model):
        if isinstance(module, torch.distributed.fsdp.FSDPModule):
            module.set_allocate_memory_from_process_group_for_comm(True)
    shards = mesh.get_group()
    before = tally.torch.copied_bytes(shards)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        given = torch.randn(4, 1500, generator=torch.Generator().manual_seed(10 * step + rank))
        model(given).square().mean().backward()
        optimizer.step()
    assert tally.torch.copied_bytes(shards) == before, tally.torch.copied_bytes(shards) - before


def sharded_training_in_mixed_precision(rank, ranks):
    from torch.distributed.fsdp import MixedPrecisionPolicy
    mesh = trainings.mesh_of("tally", ranks)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    step = trainings.stepped(trainings.sharded(trainings.network(), mesh, mp_policy=policy), rank)
    found = [step(number) for number in range(20)]
    assert found[-1] < found[0] / 2, found


def neighbours_exchange(rank, ranks):
    to, from_ = (rank + 1) % ranks, (rank - 1) % ranks
    for dtype in (torch.float32, torch.int64, torch.uint8):
        got = torch.zeros(70, dtype=dtype)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((70,), rank + 1, dtype=dtype), to),
                                        dist.P2POp(dist.irecv, got, from_)])
        for work in works:
            work.wait()
        assert (got == from_ + 1).all()
    if rank == 0:  # from anyone, told apart by tags
        for tag in range(1, ranks):
            got = torch.zeros(2)
            assert dist.recv(got, tag=tag) == tag and (got == tag).all()
    else:
        dist.send(torch.full((2,), float(rank)), 0, tag=rank)


def all_to_all(rank, ranks):
    mine = torch.arange(float(ranks)) + 10 * rank
    got = torch.zeros(ranks)
    dist.all_to_all_single(got, mine)
    assert torch.equal(got, torch.arange(float(ranks)) * 10 + rank)
    sizes = [r + 1 for r in range(ranks)]  # rank r gets r + 1 elements of each
    got = torch.zeros(ranks * (rank + 1))
    dist.all_to_all_single(got, torch.full((sum(sizes),), float(rank)), [rank + 1] * ranks, sizes)
    assert torch.equal(got, torch.arange(float(ranks)).repeat_interleave(rank + 1))
    outputs = [torch.zeros(2, 3) for _ in range(ranks)]
    dist.all_to_all(outputs, [torch.full((2, 3), float(10 * rank + r)) for r in range(ranks)])
    assert all((output == 10 * r + rank).all() for r, output in enumerate(outputs))


def gather_and_scatter(rank, ranks):
    for root in range(ranks):
        parts = [torch.zeros(3) for _ in range(ranks)] if rank == root else None
        dist.gather(torch.full((3,), float(rank)), parts, dst=root)
        if rank == root:
            assert all((part == r).all() for r, part in enumerate(parts))
        got = torch.zeros(3)
        dist.scatter(got, [torch.full((3,), float(r + root)) for r in range(ranks)] if rank == root else None, src=root)
        assert (got == rank + root).all()


def objects(rank, ranks):
    mine = {"rank": rank, "text": "x" * 1000 * rank}
    gathered = [None] * ranks if rank == ranks - 1 else None
    dist.gather_object(mine, gathered, dst=ranks - 1)
    if gathered:
        assert [one["rank"] for one in gathered] == list(range(ranks)) and gathered[-1] == mine
    got = [None]
    dist.scatter_object_list(got, [("to", r) for r in range(ranks)] if rank == 0 else None, src=0)
    assert got == [("to", rank)]
    if rank == 0:
        dist.send_object_list([mine, "end"], dst=1)
    elif rank == 1:
        got = [None, None]
        dist.recv_object_list(got, src=0)
        assert got == [{"rank": 0, "text": ""}, "end"]


def coalesced(rank, ranks):
    """As FSDP and DTensor put several collectives into one."""
    total = sum(range(ranks))
    for asynchronous in (False, True):
        sums = [torch.full((n,), float(rank)) for n in (1, 500, 400_000)]
        with dist._coalescing_manager(async_ops=asynchronous) as manager:
            for tensor in sums:
                dist.all_reduce(tensor, async_op=asynchronous)
        if asynchronous:
            manager.wait()
        assert all((tensor == total).all() for tensor in sums)
        whole = [torch.zeros(ranks * n) for n in (2, 300_000)]
        with dist._coalescing_manager(async_ops=asynchronous) as manager:
            for tensor in whole:
                dist.all_gather_single(tensor, torch.full((len(tensor) // ranks,), float(rank)), async_op=asynchronous)
        if asynchronous:
            manager.wait()
        assert all((tensor.view(ranks, -1) == torch.arange(float(ranks))[:, None]).all() for tensor in whole)
        parts = [torch.zeros(n) for n in (2, 300_000)]
        with dist._coalescing_manager(async_ops=asynchronous) as manager:
            for tensor in parts:
                dist.reduce_scatter_single(tensor, torch.full((ranks * len(tensor),), float(rank)), async_op=asynchronous)
        if asynchronous:
            manager.wait()
        assert all((tensor == total).all() for tensor in parts)


def device_mesh(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    rows = 2 if ranks % 2 == 0 else 1
    mesh = init_device_mesh("cpu", (rows, ranks // rows), mesh_dim_names=("replicate", "shard"))
    for name in mesh.mesh_dim_names:
        of_dimension = mesh[name].get_group()
        assert dist.get_backend(of_dimension) == "tally"
        one = torch.ones(1)
        dist.all_reduce(one, group=of_dimension)
        assert one.item() == mesh[name].size()
    whole = torch.arange(210.0).reshape(30, 7)  # 4 ranks cannot divide it
    for placements in ([Replicate(), Shard(0)], [Shard(0), Shard(1)], [Shard(1), Replicate()]):
        shared = distribute_tensor(whole if rank == 0 else torch.zeros_like(whole), mesh, placements)
        assert torch.equal(shared.full_tensor(), whole)
        assert torch.equal(shared.redistribute(placements=[Shard(0), Replicate()]).full_tensor(), whole)
        assert shared.sum().full_tensor().item() == whole.sum().item()


def split_group(rank, ranks):
    """torch.distributed.split_group() is for accelerators; the group's own function is for all devices."""
    world = dist.group.WORLD
    colours = [[r for r in range(ranks) if r % 2 == colour] for colour in range(2)]
    mine = colours[rank % 2]
    before = world._get_backend(CPU).options._timeout
    for _ in range(2):  # torch gives both splits the same name, and so the same store
        half = world.split_group(mine, timeout=timedelta(seconds=30))
        assert (half.size(), half.rank()) == (len(mine), mine.index(rank))
        assert half._get_backend(CPU).name() == "tally"
        tensor = torch.tensor([float(rank)])
        half.allreduce([tensor]).wait()
        assert tensor.item() == sum(mine)
    assert world._get_backend(CPU).options._timeout == before
    half.shutdown()


def futures(rank, ranks):
    seen = []
    tensor = torch.full((1000,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] / ranks).then(lambda done: seen.append(1) or done.value())
    assert torch.equal(future.wait(), torch.full((1000,), sum(range(ranks)) / ranks)) and seen == [1]
    assert work.is_completed() and work.wait()
    all_of_them = torch.futures.collect_all([dist.all_reduce(torch.ones(n), async_op=True).get_future() for n in (1, 9, 70_000)])
    assert all((done.value()[0] == ranks).all() for done in all_of_them.wait())


def waits_end_in_time(rank, ranks):
    tensor = torch.ones(100)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        group.raises("Timed out", work.wait, timedelta(milliseconds=50))
        dist.group.WORLD.monitored_barrier(timedelta(seconds=30))  # until here no other rank has called all_reduce
        work.wait()
    else:
        dist.group.WORLD.monitored_barrier(timedelta(seconds=30))
        dist.all_reduce(tensor)
    assert (tensor == ranks).all()


def aborts(rank, ranks):
    own = dist.new_group()
    if rank == 0:
        work = dist.all_reduce(torch.ones(10), group=own, async_op=True)
        own._get_backend(CPU).abort()
        try:
            work.wait()
            raise AssertionError("the aborted group ended its collective")
        except RuntimeError:
            pass
    dist.barrier()
    if rank != 0:
        own._get_backend(CPU).abort()
    dist.all_reduce(torch.ones(10))  # other groups go on


def profiles_have_spans(rank, ranks):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        dist.all_reduce(torch.ones(17, 3))
        dist.barrier()
    spans = {event.name: event for event in profile.events()}
    assert spans["tally:all_reduce"].input_shapes == [[17, 3]], spans["tally:all_reduce"].input_shapes
    assert "tally:wait" in spans and "tally:barrier" in spans, spans.keys()


def compiled_collectives(rank, ranks):
    """torch.compile turns collectives into functional ones, which the graph waits for."""
    if ranks != 2 and not SOAK:
        return
    from torch.distributed import _functional_collectives as functional
    world = dist.group.WORLD

    @torch.compile(backend="aot_eager", fullgraph=True)
    def graph(given):
        total = functional.all_reduce(given * 2, "sum", world)
        whole = functional.all_gather_tensor(given, 0, world)
        part = functional.reduce_scatter_tensor(whole, "avg", 0, world)
        return total + 1, whole, part
    for step in range(3):
        given = torch.full((4, 2), float(rank + step))
        total, whole, part = graph(given)
        assert (total == 2 * sum(r + step for r in range(ranks)) + 1).all()
        assert (whole.view(ranks, -1) == torch.arange(float(ranks))[:, None] + step).all()
        assert torch.equal(part, given)


# The widths of the default tier.
WAYS = {trainings.ddp: (3, 4), trainings.fsdp: (2, 3), trainings.hsdp: (2, 4), trainings.tensor_parallel: (2, 3),
        trainings.tensor_parallel_and_fsdp: (), trainings.pipeline: (3,), trainings.hook_compiled: (2,),
        trainings.hook_in_mixed_precision: (2,), trainings.hook_with_all_options: (3,)}
CASES = {case.__name__: case for case in (
    torch_finds_the_backend, *(learns_as_with_gloo(way) for way in WAYS), sharded_training_copies_nothing,
    sharded_training_in_mixed_precision, neighbours_exchange, all_to_all, gather_and_scatter, objects, coalesced,
    device_mesh, split_group, futures, waits_end_in_time, aborts, profiles_have_spans, compiled_collectives)}
CASES |= {kind: group.Program(("other_starts.py", kind), (2, 3, 4) if SOAK else (2,), environment) for kind, environment in (
    ("two_backends", {}), ("debug_detail", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}))}

if __name__ == "__main__":
    group.WarmProgram.imports += ("torch.distributed.fsdp", "torch.distributed.tensor.parallel")
    group.main(CASES, (2, 3, 4), prepare, finish)
