"""Network namespaces that belong to a process: named after it, and taken away when it is dead.

A name is tally-PID-START-NUMBER-WHAT. The time at which a process started tells it from a later one
with the same number; NUMBER tells the networks of one process apart.
"""

import contextlib
import ctypes
import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

DIRECTORY = Path("/run/netns")  # where `ip netns` keeps the names
CLONE_NEWNET = 0x40000000
TIMEOUT = 30  # seconds, for a command that takes milliseconds
KILL_TIMEOUT = 5

_NAME = re.compile(r"tally-(\d+)-(\d+)-\d+-\w+")
_numbers = itertools.count(1)
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkError(RuntimeError):
    """A command that makes or changes a network failed; the text says which and how."""


def call(*words: str, text: str = "") -> str:
    """Runs a command with this input; what it printed. Ctrl-C at a terminal does not reach it."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=TIMEOUT,
                          process_group=0)
    if done.returncode != 0:
        message = " ".join((done.stderr or done.stdout).split())
        raise NetworkError(f"{' '.join(words)}: {message or f'status {done.returncode}'}")
    return done.stdout


# -- names -------------------------------------------------------------------------------------------


def start_of(pid: int) -> str:
    """When it started, in ticks since the boot; empty when it is dead, buried or not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = status.rsplit(")", 1)[1].split()  # its name may hold anything; behind it all is regular
    return "" if fields[0] in "ZX" else fields[19]


def new_prefix() -> str:
    return f"tally-{os.getpid()}-{start_of(os.getpid())}-{next(_numbers)}-"


def names_with(prefix: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(DIRECTORY) if name.startswith(prefix))
    return []


def left_over() -> list[str]:
    """Those of dead processes."""
    return [name for name in names_with("tally-") if (owner := _NAME.fullmatch(name))
            and start_of(int(owner[1])) != owner[2]]


# -- what is in them ---------------------------------------------------------------------------------


def _identity(path: Path | str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:  # it ended, or somebody else removed it
        return None
    return status.st_dev, status.st_ino


def processes_in(names: Iterable[str]) -> list[int]:
    """All but the caller."""
    namespaces = {_identity(DIRECTORY / name) for name in names} - {None}
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()
            and _identity(f"/proc/{pid}/ns/net") in namespaces]


def kill_processes_in(names: Iterable[str]) -> None:
    """Until there are none: one may fork while it is killed."""
    until = time.monotonic() + KILL_TIMEOUT
    while (processes := processes_in(names)) and time.monotonic() < until:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def remove(names: list[str]) -> None:
    """With the processes in them: a namespace outlives its name while somebody is in it."""
    kill_processes_in(names)
    for name in names:
        try:
            call("ip", "netns", "delete", name)
        except NetworkError:
            if (DIRECTORY / name).exists():  # else another run cleared the same away
                raise


@contextlib.contextmanager
def entered(name: str) -> Iterator[None]:
    """The calling thread is in this namespace; sockets made meanwhile stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(DIRECTORY / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set_namespace(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _set_namespace(home)
    finally:
        os.close(home)


def _set_namespace(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
