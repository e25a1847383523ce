"""torch.distributed's backend with tensors on a device (device/torch_device.py)."""

import concurrent.futures
import datetime
import logging
import os
import weakref

import group
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import WorkResult

import tally.torch
from tally.torch import _torch
from tally.torch._connect import connect, logger
import torch_device

DEVICE = torch.device(torch_device.NAME)
LARGE = 9_000_001  # elements of float32 that need two of the buffers of CommStreams
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64]


def prepare(_rank, _ranks):
    dist.init_process_group(f"cpu:tally,{torch_device.NAME}:tally")
    torch.set_num_threads(1)


def finish():
    torch_device.check_at_end()
    dist.destroy_process_group()


def data(rank, shape, dtype=torch.float32, seed=0):
    random = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(0, 10, shape, generator=random).to(dtype)


def equal(got, wanted):
    assert got.device.type == DEVICE.type
    got = got.cpu()
    assert got.dtype == wanted.dtype and torch.equal(got, wanted), (got, wanted)


def on_both(collective, *tensors):
    """Runs it on tensors of the device and on their copies on the CPU, and compares all of them afterwards. A tensor may
    be a list of tensors."""
    def moved(given):
        return [moved(one) for one in given] if isinstance(given, list) else given.to(DEVICE)

    def flat(given):
        return [tensor for one in given for tensor in flat(one)] if isinstance(given, (list, tuple)) else [given]
    on_device = moved(list(tensors))
    collective(*on_device)
    collective(*tensors)
    for got, wanted in zip(flat(on_device), flat(tensors)):
        equal(got, wanted)


def all_reduces_each_type_and_operation(rank, _ranks):
    for dtype in TYPES:
        for shape in ((), (17,), (130, 70), (0,)):
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN):
                on_both(lambda t, op=op: dist.all_reduce(t, op=op), data(rank, shape, dtype))
    on_both(lambda t: dist.all_reduce(t, op=dist.ReduceOp.AVG), data(rank, (1000,)))
    on_both(dist.all_reduce, data(rank, (40,)) > 5)


def all_reduces_more_than_a_buffer(rank, _ranks):
    on_both(dist.all_reduce, data(rank, (LARGE,)))


def moves_each_type(rank, ranks):
    for dtype in [*TYPES, torch.bool, torch.complex64]:
        on_both(lambda t: dist.broadcast(t, ranks - 1), data(rank, (33,), dtype))
        on_both(dist.all_gather, [torch.empty(5, 3, dtype=dtype) for _ in range(ranks)], data(rank, (5, 3), dtype))
        on_both(dist.all_gather_into_tensor, torch.empty(7 * ranks, dtype=dtype), data(rank, (7,), dtype))


def reduces_and_scatters(rank, ranks):
    on_both(lambda t: dist.reduce(t, 0) if rank == 0 else dist.reduce(t.clone(), 0), data(rank, (12,)))
    on_both(dist.reduce_scatter, torch.empty(9), [data(rank, (9,), seed=r) for r in range(ranks)])
    on_both(dist.reduce_scatter_tensor, torch.empty(9), data(rank, (9 * ranks,)))
    on_both(lambda out, given: dist.reduce_scatter_tensor(out, given, op=dist.ReduceOp.AVG), torch.empty(9),
            data(rank, (9 * ranks,)))


def gathers_and_scatters_more_than_a_buffer(rank, ranks):
    part = LARGE // ranks
    on_both(dist.all_gather_into_tensor, torch.empty(part * ranks), data(rank, (part,)))
    on_both(dist.reduce_scatter_tensor, torch.empty(part), data(rank, (part * ranks,)))


def takes_tensors_that_are_not_contiguous(rank, ranks):
    def column(tensor):
        return tensor[:, 1]
    on_both(lambda t: dist.all_reduce(column(t)), data(rank, (8, 3)))
    on_both(lambda t: dist.broadcast(column(t), 0), data(rank, (8, 3)))
    on_both(lambda out, given: dist.all_gather([column(one) for one in out], column(given)),
            [torch.zeros(8, 3) for _ in range(ranks)], data(rank, (8, 3)))


def does_several_tensors_at_once(rank, ranks):
    tensors = [data(rank, (size,)) for size in (5, 700, 30)]
    on_both(lambda *given: dist.all_reduce_coalesced(list(given)), *tensors)

    def scatter(*given):
        with dist._coalescing_manager():
            for out, whole in zip(given[:2], given[2:]):
                dist.reduce_scatter_tensor(out, whole)
    on_both(scatter, torch.empty(4), torch.empty(6), data(rank, (4 * ranks,)), data(rank, (6 * ranks,)))


def refuses_what_nodes_do_not_have(_rank, _ranks):
    tensor = torch.ones(3, device=DEVICE)
    group.raises("reduce copies on the CPU", dist.all_reduce, tensor, op=dist.ReduceOp.PRODUCT)
    group.raises("gloo does this", dist.all_to_all_single, torch.empty_like(tensor), tensor)
    group.raises("this call takes tensors on", dist.all_gather_into_tensor,
                 torch.empty(3 * dist.get_world_size()), tensor)


def the_stream_orders_a_call_and_the_host_does_not_wait(rank, ranks):
    tensor = torch.empty(100_000, device=DEVICE)
    with torch_device.held_up():
        tensor.fill_(rank + 1.0)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        tensor.mul_(2)
        kept = tensor.clone()
        tensor.fill_(0)
        assert not work.is_completed()
    equal(kept, torch.full((100_000,), 2.0 * sum(range(1, ranks + 1))))
    torch_device.until(work.is_completed)
    assert work.is_success()


def another_stream_waits_when_it_asks(rank, ranks):
    other = torch.Stream(DEVICE)
    tensor = torch.full((1000,), rank + 1.0, device=DEVICE)
    torch.accelerator.synchronize()
    with torch_device.held_up():
        work = dist.all_reduce(tensor, async_op=True)
        with other:
            before = tensor.clone()
            other.synchronize()
            work.wait()
            after = tensor.clone()
            by_future = work.get_future().wait()[0].clone()
    other.synchronize()
    equal(before, torch.full((1000,), rank + 1.0))
    equal(after, torch.full((1000,), float(sum(range(1, ranks + 1)))))
    equal(by_future, after.cpu())


def the_host_never_waits(rank, _ranks):
    if torch_device.IS_GPU:
        return
    count, calls = 100_000, 8
    tensor = torch.ones(count, device=DEVICE)

    def many():
        for _ in range(calls):
            dist.all_reduce(tensor, async_op=True).wait()
    many()  # makes the buffers
    torch.accelerator.synchronize()
    dist.barrier()
    copied = tally.torch.copied_on_devices()
    before = torch_device.report()
    many()
    enqueued = torch_device.report()
    torch.accelerator.synchronize()
    after = torch_device.report()
    assert enqueued["host_synchronizations"] == before["host_synchronizations"]
    assert after["live_registrations"] == before["live_registrations"]
    assert after["allocations"] == before["allocations"]
    for direction, times in (("bytes_down", 1), ("bytes_up", 1), ("bytes_between", 2)):
        assert after[direction] - before[direction] == times * calls * tensor.nbytes, direction
    assert tally.torch.copied_on_devices() - copied == 2 * calls * tensor.nbytes
    if rank == 0:
        print({name: after[name] - before[name] for name in ("bytes_down", "bytes_up", "bytes_between")})


def memory_is_freed_and_comes_back(_rank, ranks):
    for step in range(10):
        for size in (1000, 300_000):
            tensor = torch.full((size,), float(step), device=DEVICE)
            work = dist.all_reduce(tensor, async_op=True)
            if step % 2 == 0:
                work.wait()
                equal(tensor, torch.full((size,), float(step * ranks)))
            del work, tensor
            again = torch.full((size,), -1.0, device=DEVICE)
            torch.accelerator.synchronize()
            equal(again, torch.full((size,), -1.0))
            del again
        torch_device.empty_cache()


def a_missing_rank_is_an_error_and_the_stream_goes_on(rank, ranks):
    if ranks == 1:
        return
    alone = dist.new_group(backend=f"{torch_device.NAME}:tally", timeout=datetime.timedelta(seconds=1))
    tensor = torch.ones(200_000, device=DEVICE)
    dist.all_reduce(tensor, group=alone)
    torch.accelerator.synchronize()
    if rank == 0:
        work = dist.all_reduce(tensor, group=alone, async_op=True)
        work.wait()
        tensor.fill_(5)
        torch.accelerator.synchronize()
        equal(tensor, torch.full((200_000,), 5.0))
        verdict = work.get_future_result().wait()
        assert verdict == WorkResult.TIMEOUT.value, verdict
        assert not work.is_success()
        for call in (work.wait, lambda: dist.all_reduce(tensor, group=alone)):
            group.raises("Timed out: tag", call)
    dist.barrier()
    dist.destroy_process_group(alone)


def each_launch_of_a_graph_is_a_round(rank, ranks):
    """Between the launches, other calls of the group use its streams and buffers."""
    stream, graph = torch.Stream(DEVICE), torch_device.Graph()
    count, launches = 300_000, 3
    tensor, whole = torch.full((count,), rank + 1.0, device=DEVICE), torch.zeros(2 * ranks, device=DEVICE)
    torch.accelerator.synchronize()
    with graph.of(stream):
        dist.all_reduce(tensor)
        work = dist.all_gather_into_tensor(whole, tensor[:2], async_op=True)
        work.wait()
        tensor.mul_(2)
        assert work.is_completed() and work.is_success()
    equal(tensor, torch.full((count,), rank + 1.0))
    torch.accelerator.synchronize()
    total = sum(range(1, ranks + 1))
    for launch in range(launches):
        graph.launch(stream)
        other = torch.full((count,), float(launch), device=DEVICE)
        dist.all_reduce(other)
        equal(other, torch.full((count,), float(launch * ranks)))
    torch.accelerator.synchronize()
    before = total * (2 * ranks) ** (launches - 1)
    equal(tensor, torch.full((count,), 2.0 * before))
    equal(whole, torch.full((2 * ranks,), float(before)))


def a_launch_that_fails_is_an_error_of_the_next_call(rank, ranks):
    if ranks == 1:
        return
    alone = dist.new_group(backend=f"{torch_device.NAME}:tally", timeout=datetime.timedelta(seconds=1))
    stream, graph = torch.Stream(DEVICE), torch_device.Graph()
    tensor = torch.ones(1000, device=DEVICE)
    torch.accelerator.synchronize()
    with graph.of(stream):
        dist.all_reduce(tensor, group=alone)
    if rank == 0:
        graph.launch(stream)
        stream.synchronize()  # it goes on
        torch_device.until(lambda: alone._get_backend(DEVICE).get_error().name == "TIMEOUT")
        group.raises("Timed out: tag", dist.all_reduce, tensor, group=alone)
    dist.barrier()
    dist.destroy_process_group(alone)


def what_a_graph_cannot_have_is_refused(_rank, _ranks):
    if torch_device.IS_GPU:
        return
    state, tensor, most = tally.torch.State(stats=True), torch.ones(10, device=DEVICE), 256
    alone = dist.new_group(backend=f"{torch_device.NAME}:tally")
    with torch_device.Graph().of(torch.Stream(DEVICE)):
        group.raises("use State(stats=False)", state._on_devices().average, 0, tensor, None, True)
        for _ in range(most):
            dist.all_reduce(tensor, group=alone)
        group.raises("belong to CUDA graphs", dist.all_reduce, tensor, group=alone)
    state.close()
    dist.destroy_process_group(alone)


def a_group_may_have_the_device_alone(rank, ranks):
    alone = dist.new_group(backend=f"{torch_device.NAME}:tally")
    found = [None] * ranks
    dist.all_gather_object(found, {"rank": rank}, group=alone)
    assert found == [{"rank": one} for one in range(ranks)]
    dist.barrier(group=alone)
    tally.torch.State(alone).close()
    dist.destroy_process_group(alone)


def more_calls_than_may_be_outstanding(_rank, ranks):
    tensor = torch.ones(10, device=DEVICE)
    for _ in range(600):
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True)
    equal(torch.ones(10, device=DEVICE), torch.ones(10))
    torch.accelerator.synchronize()
    equal(tensor, torch.ones(10))


def an_error_before_the_call_is_thrown(_rank, _ranks):
    if torch_device.IS_GPU:
        return
    out_of_memory, tensor = 2, torch.ones(10, device=DEVICE)
    for function, name in (("cuMemAlloc", "a buffer on the device: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
                           ("cuMemHostRegister", "cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY")):
        alone = dist.new_group(backend=f"{torch_device.NAME}:tally")
        torch_device.fail_next(function, out_of_memory)
        for _ in range(2):
            group.raises(name, dist.all_reduce, tensor, group=alone)
        tensor.mul_(2)
        torch.accelerator.synchronize()
        dist.destroy_process_group(alone)


def a_call_ends_when_its_group_ends(_rank, ranks):
    alone = dist.new_group(backend=f"{torch_device.NAME}:tally")
    calls = 5  # so that each communication stream of the group has its buffer
    tensor = torch.ones(200_000, device=DEVICE)
    for _ in range(calls):
        dist.all_reduce(tensor, group=alone)
    torch.accelerator.synchronize()
    equal(tensor, torch.full((200_000,), float(ranks ** calls)))
    alone._get_backend(DEVICE).abort()
    group.raises("closed", dist.all_reduce, tensor, group=alone)


def a_work_of_a_group_that_is_gone_is_an_error(rank, ranks):
    """Its session is being destroyed, which takes until the stream has reached the work."""
    # Each rank has a group of its own, because a rank that leaves also ends the works of others.
    store = dist.PrefixStore(f"gone-{rank}", dist.distributed_c10d._get_default_store())
    communicator = connect(store, 0, 1, 30)
    gone = weakref.ref(communicator)
    own = _torch.Group(communicator, 30, dist.group.WORLD._get_backend(torch.device("cpu")))
    tensor = torch.ones(200_000, device=DEVICE)
    own.allreduce([tensor]).wait()
    held = [communicator]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        with torch_device.held_up():
            work = own.allreduce([tensor])
            del own, communicator
            pool.submit(held.clear)
            torch_device.until(lambda: gone() is None)
            waits = [pool.submit(group.raises, "closed", work.wait, *timeout) for timeout in ((), (datetime.timedelta(seconds=20),))]
            concurrent.futures.wait(waits, timeout=0.3)
        for wait in waits:
            wait.result()


class Lines(logging.Handler):
    """The lines of the log."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def without_nccl_machine_groups_have_no_effect(rank, ranks):
    """machine_groups_test.py has those with NCCL. The variable of rank 0 counts."""
    if torch_device.IS_GPU:
        return
    variable, lines = "TALLY_MACHINE_GROUPS", Lines()
    logger.addHandler(lines)
    try:
        if rank == 0:
            os.environ[variable] = "1"
        alone = dist.new_group(backend=f"{torch_device.NAME}:tally")
        for count in (10, 300_000, 300_000):
            tensor = torch.full((count,), rank + 1.0, device=DEVICE)
            dist.all_reduce(tensor, group=alone)
            equal(tensor, torch.full((count,), float(sum(range(1, ranks + 1)))))
        dist.destroy_process_group(alone)
        if rank == 0:
            os.environ[variable] = "yes"
        group.raises("rank 0: TALLY_MACHINE_GROUPS is 'yes': use 1 or 0", dist.new_group,
                     backend=f"{torch_device.NAME}:tally")
    finally:
        os.environ.pop(variable, None)
        logger.removeHandler(lines)
    found = [line for line in lines.lines if "MACHINE_GROUPS" in line]
    assert len(found) == (rank == 0), found
    assert not found or "is without effect: rank 0: " in found[0] and "libnccl.so.2" in found[0], found


if __name__ == "__main__":
    group.main({
        "all-reduce": all_reduces_each_type_and_operation,
        "all-reduce-large": all_reduces_more_than_a_buffer,
        "broadcast-and-gather": moves_each_type,
        "reduce-and-scatter": reduces_and_scatters,
        "gather-large": gathers_and_scatters_more_than_a_buffer,
        "not-contiguous": takes_tensors_that_are_not_contiguous,
        "several-tensors": does_several_tensors_at_once,
        "refused": refuses_what_nodes_do_not_have,
        "order": the_stream_orders_a_call_and_the_host_does_not_wait,
        "another-stream": another_stream_waits_when_it_asks,
        "counted": the_host_never_waits,
        "freed-memory": memory_is_freed_and_comes_back,
        "missing-rank": a_missing_rank_is_an_error_and_the_stream_goes_on,
        "no-memory": an_error_before_the_call_is_thrown,
        "graph": each_launch_of_a_graph_is_a_round,
        "graph-fails": a_launch_that_fails_is_an_error_of_the_next_call,
        "graph-refused": what_a_graph_cannot_have_is_refused,
        "machine-groups": without_nccl_machine_groups_have_no_effect,
        "device-alone": a_group_may_have_the_device_alone,
        "many-calls": more_calls_than_may_be_outstanding,
        "abort": a_call_ends_when_its_group_ends,
        "group-gone": a_work_of_a_group_that_is_gone_is_an_error,
    }, widths=(1, 2, 3), prepare=prepare, finish=finish)
