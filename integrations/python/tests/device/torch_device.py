"""The device of the tests: torch.device(NAME).

It is "process", which an import of this module registers (device.h explains it). The folder of the extension module
_torch_device must be on sys.path. With TALLY_TEST_DEVICE=cuda it is the GPU of this rank, and the tests that count or need
the double do nothing."""

import contextlib
import ctypes
import functools
import json
import os
import time
import types

import torch

IS_GPU = os.environ.get("TALLY_TEST_DEVICE") == "cuda"
NAME = "cuda" if IS_GPU else "process"
# How far sums on the device may be from those on the CPU. The double has the CPU's own.
TOLERANCE = 1e-4 if IS_GPU else 1e-6
CYCLES_PER_SECOND = 1.5e9  # of a GPU, or some more


@contextlib.contextmanager
def held_up():
    """The current stream gets what is enqueued here, and begins with it at the end; on a GPU it begins half a second late."""
    if IS_GPU:
        torch.cuda._sleep(int(0.5 * CYCLES_PER_SECOND))
        yield
        return
    gate = _torch_device.close_gate()
    try:
        yield
    finally:
        gate.open()


def until(condition) -> None:
    """Waits for what another thread does, and fails after 10 s."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def empty_cache() -> None:
    (torch.cuda if IS_GPU else _torch_device).empty_cache()


def use_ordinal(ordinal: int) -> None:
    """The device of the calling thread is this one of CUDA's. A thread calls it before it uses the device."""
    _torch_device.use_ordinal(ordinal)


def report() -> dict:
    """Counters, calls, misuse and waiting streams of the CUDA of the process."""
    return json.loads(_cuda.tally_test_cuda_report().decode())


def fail_next(function: str, code: int) -> None:
    """The next call of this function of CUDA has the code as its result."""
    _cuda.tally_test_cuda_fail(function.encode(), ctypes.c_ulonglong(1), ctypes.c_uint(code))


class Graph:
    """A CUDA graph of what a stream gets within `with Graph().of(stream)`."""

    @contextlib.contextmanager
    def of(self, stream: torch.Stream):
        if IS_GPU:
            made = torch.cuda.CUDAGraph()
            with torch.cuda.graph(made):
                yield
            self._launch = lambda _: made.replay()
            return
        with stream:
            made, graph = ctypes.c_void_p(), ctypes.c_void_p()
            assert _cuda.cuStreamBeginCapture(_handle(stream), 0) == 0  # as torch.cuda.graph: in mode global
            try:
                yield
            finally:
                ended = _cuda.cuStreamEndCapture(_handle(stream), ctypes.byref(graph))
            assert ended == 0, ended
            assert _cuda.cuGraphInstantiateWithFlags(ctypes.byref(made), graph, ctypes.c_ulonglong(0)) == 0
            assert _cuda.cuGraphDestroy(graph) == 0
        self._launch = lambda stream: _cuda.cuGraphLaunch(made, _handle(stream))

    def launch(self, stream: torch.Stream) -> None:
        with stream:
            assert not self._launch(stream)


def _handle(stream: torch.Stream) -> ctypes.c_void_p:
    return ctypes.c_void_p(stream.stream_id)


def check_at_end() -> None:
    """Waits for the device. Fails when a program has used CUDA wrongly, or a stream waits for ever."""
    torch.accelerator.synchronize()
    if not IS_GPU:
        found = report()
        assert not found["misuses"] and not found["waiting"], (found["misuses"], found["waiting"])


def _module() -> types.ModuleType:
    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.set_device = lambda device: None
    module.device = lambda device: contextlib.nullcontext()
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.synchronize = lambda device=None: torch.accelerator.synchronize()
    module.current_stream = lambda device=None: torch.accelerator.current_stream()
    module.Stream = functools.partial(torch.Stream, torch.device(NAME))
    module.Event = functools.partial(torch.Event, torch.device(NAME))
    module.stream = lambda stream: stream if stream is not None else contextlib.nullcontext()
    return module


if IS_GPU:
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
else:
    import _torch_device
    _cuda = ctypes.CDLL("libcuda.so.1")
    _cuda.tally_test_cuda_report.restype = ctypes.c_char_p
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
