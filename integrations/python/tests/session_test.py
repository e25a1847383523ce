"""Sessions and collectives on arrays: every one, every type, 1 to 4 ranks."""

import os
import pickle
import signal
import socket
import tempfile
import threading
import time

import group
import numpy as np
import tally

TYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"]
session = None


def prepare(rank, ranks):
    global session
    session = tally.Session(job=f"arrays-{ranks}", rank=rank, ranks=ranks, deadline=20)


def data(rank, count, dtype, seed=1):
    random = np.random.default_rng([seed, rank])
    return random.integers(0, 20, count).astype(dtype)


def expect(got, wanted):
    np.testing.assert_array_equal(got, wanted)
    assert got.dtype == wanted.dtype, (got.dtype, wanted.dtype)


def raises(status, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except tally.Error as error:
        assert error.status == status, repr(error.status)
        return error
    raise AssertionError(f"no tally.Error of status {status}")


def all_reduce(rank, ranks):
    for dtype in TYPES:
        for count in (0, 1, 1000, 70_001):
            mine = [data(r, count, dtype) for r in range(ranks)]
            out = np.zeros(count, dtype)
            given = mine[rank].copy()
            if count == 0:
                continue
            assert session.all_reduce(given, out).wait() is out
            expect(out, np.sum(mine, axis=0, dtype=dtype))
            expect(given, mine[rank])
            session.all_reduce(given, op="max").wait()
            expect(given, np.max(mine, axis=0))
            given[:] = mine[rank]
            session.all_reduce(given, op="min").wait()
            expect(given, np.min(mine, axis=0))


def averages(rank, ranks):
    values = np.full((3, 5), np.float32(rank + 1))
    session.all_reduce(values, op="average").wait()
    wanted = np.float32(sum(range(1, ranks + 1))) / np.float32(ranks)
    expect(values, np.full((3, 5), wanted))


def reduce(rank, ranks):
    for root in range(ranks):
        mine = [data(r, 333, "float32") for r in range(ranks)]
        given, out = mine[rank].copy(), np.full(333, -1, np.float32)
        session.reduce(given, out, root=root).wait()
        expect(out, np.sum(mine, axis=0) if rank == root else np.full(333, -1, np.float32))


def broadcast(rank, ranks):
    for root in range(ranks):
        array = data(rank, 4097, "int64")
        session.broadcast(array, root=root).wait()
        expect(array, data(root, 4097, "int64"))


def reduce_scatter_and_all_gather(rank, ranks):
    count = 1003  # shares are not equal
    begin, end = count * rank // ranks, count * (rank + 1) // ranks
    mine = [data(r, count, "int32") for r in range(ranks)]
    part = np.zeros(end - begin, np.int32)
    session.reduce_scatter(mine[rank], part).wait()
    total = np.sum(mine, axis=0, dtype=np.int32)
    expect(part, total[begin:end])
    whole = np.zeros(count, np.int32)
    session.all_gather(part, whole).wait()
    expect(whole, total)


def memory_of_the_node_is_not_copied(rank, ranks):
    before = session.copied_bytes
    array = tally.empty((100, 100), "float32")
    array[:] = rank
    session.all_reduce(array).wait()
    assert (array == sum(range(ranks))).all()
    assert session.copied_bytes == before
    own = np.full(100_000, np.float32(rank))
    session.adopt(own)
    session.all_reduce(own).wait()
    assert (own == sum(range(ranks))).all()
    copied = session.copied_bytes - before
    assert 0 < copied < 4 * 4096, "the ragged edges of adopted memory alone, in and out"
    session.forget(own)
    session.all_reduce(own).wait()
    assert session.copied_bytes - before >= 2 * own.nbytes


def regions_outlive_sessions(rank, ranks):
    array = tally.empty(500_000)
    array[:] = 1
    region = tally.Region(1 << 20)
    numbers = np.frombuffer(region, np.int32)[:1000]
    for turn in range(2):
        with tally.Session(job=f"outlive-{ranks}", rank=rank, ranks=ranks) as other:
            other.all_reduce(array).wait()
            numbers[:] = turn
            other.all_reduce(numbers).wait()
            other.barrier().wait()
            assert other.copied_bytes == 0
        assert other.copied_bytes == 0, "known also of a closed session"
    assert (array == ranks**2).all() and (numbers == ranks).all()
    assert region.nbytes == 1 << 20
    del region
    assert (numbers == ranks).all(), "the array keeps the memory"
    assert tally.empty(0).size == 0 and tally.empty((3, 0)).shape == (3, 0)


def many_at_once_in_any_order(rank, ranks):
    arrays = [np.full(1000 + i, np.float32(rank)) for i in range(200)]
    order = np.random.default_rng(rank).permutation(200)
    handles = {i: session.all_reduce(arrays[i], tag=int(i)) for i in order}
    for i in np.random.default_rng(rank + 9).permutation(200):
        assert (handles[i].wait() == sum(range(ranks))).all()


def more_than_credit(rank, ranks):
    handles = [session.all_reduce(np.full(64, rank, np.int64)) for _ in range(2000)]
    for handle in handles:
        assert (handle.wait() == sum(range(ranks))).all()


def statistics(rank, ranks):
    array = np.ones(5000, np.float32)
    array[0] = np.inf
    handle = session.all_reduce(array, stats=True)
    handle.wait()
    assert handle.nonfinite == 1
    assert handle.sum_of_squares == 4999 * ranks**2, "of what is finite"


def threads(rank, ranks):
    failures = []

    def work(first):
        try:
            for i in range(50):
                array = np.full(2000, np.float32(rank))
                session.all_reduce(array, tag=first).wait()
                assert (array == sum(range(ranks))).all(), i
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    workers = [threading.Thread(target=work, args=(1000 + n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures


class Mourned(np.ndarray):
    """Python code runs when it goes: on a thread without the GIL the interpreter says so, and dies."""

    def __del__(self):
        [self.size].clear()


def threads_let_go_of_each_others_arrays(rank, ranks):
    def work(tag):
        for _ in range(3000 // ranks**2):
            session.all_reduce(np.full(50, rank, np.float32).view(Mourned), tag=tag).wait()

    workers = [threading.Thread(target=work, args=(2000 + n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def dlpack(rank, ranks):
    try:
        import torch
    except ImportError:
        return
    tensor = torch.full((300,), rank + 1, dtype=torch.bfloat16)
    session.all_reduce(tensor).wait()
    assert (tensor == sum(range(1, ranks + 1))).all(), tensor
    error = raises("invalid argument", session.all_reduce, torch.ones(4, 4).t()[:2])
    assert "contiguous" in str(error)


def wrong_arguments(rank, ranks):
    error = raises("invalid argument", session.all_reduce, np.zeros((4, 4))[:, 1])
    assert "contiguous" in str(error)
    raises("invalid argument", session.all_reduce, np.zeros(4, np.complex64))
    raises("invalid argument", session.all_reduce, np.zeros(4, np.int16))
    raises("invalid argument", session.all_reduce, "text")
    raises("invalid argument", session.all_reduce, np.zeros(4), np.zeros(5))
    error = raises("invalid argument", session.all_reduce, np.zeros(4), np.zeros(4, np.float32))
    assert "elements of f32, where the input has f64" in str(error), error
    raises("invalid argument", session.all_reduce, np.zeros(4), op="xor")
    raises("invalid argument", session.all_reduce, np.zeros(4), tag=1 << 31)
    raises("invalid argument", session.all_reduce, np.zeros(4), deadline=-1.0)
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    error = raises("invalid argument", session.all_reduce, frozen)
    assert "read-only" in str(error), error
    error = raises("invalid argument", session.reduce, np.zeros(4), root=ranks)
    assert f"root {ranks}: must be a rank of the job, 0 to {ranks - 1}" in str(error), error
    error = raises("no memory", tally.empty, 1 << 42)
    assert " bytes free" in str(error), error
    raises("no memory", tally.Region, 2**64 - 1)
    raises("unavailable", tally.Session, address="unix:/nowhere/s", connect_timeout=0.2)
    error = pickle.loads(pickle.dumps(tally.Error("text", "peer lost", 3, True)))
    assert (error.status, error.culprit, error.inputs_gone, str(error)) == (
        "peer lost", 3, True, "peer lost: text")


def ranks_that_disagree(rank, ranks):
    if ranks == 1:
        return
    error = raises("mismatch", session.all_reduce(np.zeros(10 + (rank == 1))).wait)
    assert error.culprit is not None, error


def a_rank_that_does_not_come(rank, ranks):
    if ranks == 1:
        return
    if rank == 0:
        error = raises("deadline", session.all_reduce(np.zeros(10), tag=77, deadline=0.5).wait)
        assert "rank" in str(error), error
    session.barrier().wait()


def a_wait_that_times_out_goes_on(rank, ranks):
    if ranks == 1:
        return
    array = np.ones(10)
    if rank == 0:
        handle = session.all_reduce(array, tag=78)
        raises("again", handle.wait, timeout=0.2)
        session.barrier().wait()
    else:
        session.barrier().wait()
        handle = session.all_reduce(array, tag=78)
    assert (handle.wait() == ranks).all()


def control_c_ends_a_wait(rank, ranks):
    if ranks == 1 or rank != 0:
        session.barrier().wait()
        if ranks > 1:
            session.all_reduce(np.ones(3), tag=79).wait()
        return
    handle = session.all_reduce(np.ones(3), tag=79)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        handle.wait()
        raise AssertionError("it was not interrupted")
    except KeyboardInterrupt:
        assert time.monotonic() - begin < 3
    session.barrier().wait()
    handle.wait()


def control_c_ends_connecting(rank, ranks):
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{directory}/node.sock")
        silent.listen()
        for address in (f"unix:{directory}/node.sock", f"unix:{directory}/nobody.sock"):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            try:
                tally.Session(address=address, connect_timeout=20)
                raise AssertionError("it was not interrupted")
            except KeyboardInterrupt:
                assert time.monotonic() - begin < 3


def a_dropped_handle_keeps_its_arrays(rank, ranks):
    for _ in range(50):
        session.all_reduce(np.ones(100_000, np.float32))
    session.barrier().wait()


def a_session_can_be_closed_and_opened_again(rank, ranks):
    for turn in range(3):
        with tally.Session(job=f"again-{ranks}", rank=rank, ranks=ranks) as other:
            assert (other.rank, other.ranks, other.transport) == (rank, ranks, "shm")
            assert other.shards >= 1
            array = np.full(10, turn, np.int32)
            other.all_reduce(array).wait()
            assert (array == turn * ranks).all()
            other.barrier().wait()
        raises("invalid argument", other.all_reduce, np.ones(3))


CASES = {case.__name__: case for case in (
    all_reduce, averages, reduce, broadcast, reduce_scatter_and_all_gather,
    memory_of_the_node_is_not_copied, regions_outlive_sessions, many_at_once_in_any_order, more_than_credit, statistics,
    threads, threads_let_go_of_each_others_arrays, dlpack, wrong_arguments, ranks_that_disagree,
    a_rank_that_does_not_come, a_wait_that_times_out_goes_on, control_c_ends_a_wait,
    control_c_ends_connecting, a_dropped_handle_keeps_its_arrays,
    a_session_can_be_closed_and_opened_again)}

if __name__ == "__main__":
    group.WarmProgram.imports = ()
    group.main(CASES, prepare=prepare)
