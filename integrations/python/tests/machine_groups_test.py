"""Machine groups in PyTorch ($TALLY_MACHINE_GROUPS). The ranks are threads of this process, because the NCCL of the process
joins threads. Each has a device of its own (device/torch_device.py)."""

import concurrent.futures
import ctypes
import datetime
import os
import threading

import group
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

import torch_device
from tally.torch import _torch
from tally.torch._backend import create
from tally.torch._connect import connect

DEVICE = torch.device(torch_device.NAME)
RANKS = 4
SMALL, LARGE = 1000, 9_000_001  # elements of float32: of an all-reduce of Tally alone, and of two pieces
SUM = sum(range(1, RANKS + 1))


def on_each_rank(body) -> list:
    """The results of body(rank, store), by rank."""
    store = dist.HashStore()

    def run(rank):
        torch_device.use_ordinal(rank)
        return body(rank, store)
    with concurrent.futures.ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(run, range(RANKS), timeout=120))


def backend(rank, store, seconds=30):
    return create(store, rank, RANKS, datetime.timedelta(seconds=seconds))


def options(operation):
    made = dist.AllreduceOptions()
    made.reduceOp = operation
    return made


def filled(rank, count, dtype=torch.float32):
    return torch.full((count,), rank + 1, dtype=dtype, device=DEVICE)


def check(tensor, value):
    assert torch.equal(tensor.cpu(), torch.full(tensor.shape, value, dtype=tensor.dtype)), tensor


def count_all(rank, barrier, counted) -> None:
    """Appends what the devices have done, when all ranks are here and no device has work."""
    torch.accelerator.synchronize()
    barrier.wait()
    if rank == 0:
        counted.append(torch_device.report())
    barrier.wait()


def sums_and_averages() -> None:
    def body(rank, store):
        own = backend(rank, store)
        for dtype in (torch.float32, torch.float16, torch.int64):
            for count in (SMALL, 600_000):
                tensor = filled(rank, count, dtype)
                own.allreduce([tensor]).wait()
                check(tensor, SUM)
        tensors = [filled(rank, count) for count in (LARGE, SMALL)]
        for tensor in tensors:
            own.allreduce([tensor], options(dist.ReduceOp.AVG)).wait()
            check(tensor, SUM / RANKS)
        assert own.get_error() == ErrorType.SUCCESS, own.get_error()
        barrier.wait()
        own.shutdown()
    barrier = threading.Barrier(RANKS)
    on_each_rank(body)


def a_host_sends_its_bytes_once() -> None:
    tensors = {}

    def body(rank, store):
        own = backend(rank, store)
        tensors[rank] = filled(rank, LARGE)
        for _ in range(2):  # makes the group, and the buffers of all streams
            own.allreduce([tensors[rank]]).wait()
        count_all(rank, barrier, counted)
        own.allreduce([tensors[rank]]).wait()
        count_all(rank, barrier, counted)
        check(tensors[rank], RANKS ** 2 * SUM)
        barrier.wait()
        own.shutdown()
    barrier, counted = threading.Barrier(RANKS), []
    on_each_rank(body)
    before, after = counted
    for direction in ("bytes_down", "bytes_up"):
        assert after[direction] - before[direction] == tensors[0].nbytes, direction
    for unchanged in ("allocations", "live_registrations"):
        assert after[unchanged] == before[unchanged], unchanged


def the_hook_averages() -> None:
    count = 600_000

    def body(rank, store):
        reducer = _torch.DeviceReducer(connect(store, rank, RANKS, 30), 30)
        # The first call makes the group. Calls with statistics do not use it.
        for wire, stats in ((None, False), (None, False), (torch.bfloat16, False), (None, True)):
            bucket = filled(rank, count)
            count_all(rank, barrier, counted)
            reducer.average(0, bucket, wire, stats).wait()
            check(bucket, SUM / RANKS)
        count_all(rank, barrier, counted)
        assert reducer.statistics() == (count * (SUM / RANKS) ** 2, 0)
        barrier.wait()
    barrier, counted = threading.Barrier(RANKS), []
    on_each_rank(body)
    by_check = RANKS * 4 * count
    down = [report["bytes_down"] for report in counted]
    moved = [after - before - by_check for before, after in zip(down, down[1:])]
    assert moved[1:] == [4 * count, 2 * count, RANKS * 4 * count], moved


def a_rank_that_leaves_is_an_error_of_the_others() -> None:
    def body(rank, store):
        own = backend(rank, store, seconds=2)
        tensor = filled(rank, 600_000)
        own.allreduce([tensor]).wait()
        check(tensor, SUM)
        barrier.wait()
        if rank == RANKS - 1:
            own.abort()
            return

        def call():
            own.allreduce([tensor]).wait()
            torch.accelerator.synchronize()  # the stream goes on
        try:
            call()
        except RuntimeError as error:
            assert "machine group: " in str(error), error
        torch_device.until(lambda: own.get_error() != ErrorType.SUCCESS or raises(call))
        group.raises("machine group: ", call)
        own.abort()
    barrier = threading.Barrier(RANKS)
    on_each_rank(body)


def raises(call) -> bool:
    try:
        call()
    except RuntimeError:
        return True
    return False


def main() -> None:
    os.environ["TALLY_MACHINE_GROUPS"] = "1"
    with group.node() as own:
        os.environ["TALLY_ADDRESS"] = own.address
        ctypes.CDLL(os.environ["TALLY_TEST_NCCL"], mode=ctypes.RTLD_GLOBAL)
        for case in (sums_and_averages, a_host_sends_its_bytes_once, the_hook_averages,
                     a_rank_that_leaves_is_an_error_of_the_others):
            case()
            print(f"ok: {case.__name__}", flush=True)
    torch_device.check_at_end()


if __name__ == "__main__":
    main()
