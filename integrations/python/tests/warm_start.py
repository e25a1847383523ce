"""Starts Python programs that have imported torch, or JAX, already. A rank takes 3 s of a core to import torch and what
DDP needs of it, and the tests start more than a hundred ranks.

A server imports them once and forks for each program. A keeper between the two waits for the program's end.

usage: warm_start.py FD MODULE...    (the server; WarmProgram alone starts it)
"""

import array
import atexit
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

PR_SET_PDEATHSIG = 1
MOST_BYTES = 1 << 20  # of a request
SHORT_END = "WARM_START_SHORT_END"  # in a program's environment: see run_to_its_end()


class WarmProgram:
    """In place of subprocess.Popen: for processes.Process, and only with the arguments that it gives.

    imports: what the server imports. A test names what most of its programs import, before it starts the first one; but
    no module of tally, because importing it changes torch. Without imports group.py starts ordinary processes.
    """

    imports = ("torch", "torch._dynamo")  # DDP imports the second one when it is made
    _server: socket.socket | None = None

    def __init__(self, words, *, stderr, env, **_):
        if WarmProgram._server is None:
            WarmProgram._server = start_server(WarmProgram.imports)
        its_input, mine = os.pipe()
        self.stdin = os.fdopen(mine, "wb", buffering=0)
        mine, its_output = os.pipe()
        self.stdout = os.fdopen(mine, "rb", buffering=0)
        mine, its_status = os.pipe()
        self._status = os.fdopen(mine, "rb", buffering=0)
        self.returncode: int | None = None
        request = json.dumps({"words": words[1:], "environment": env}).encode()
        ends = [its_input, its_output, stderr.fileno(), its_status]
        WarmProgram._server.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ends))])
        for end in (its_input, its_output, its_status):
            os.close(end)
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.readline() or -signal.SIGKILL)  # nothing: the keeper was killed
            self._status.close()
        return self.returncode


def start_server(imports: tuple[str, ...]) -> socket.socket:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (here, there):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    subprocess.Popen([sys.executable, __file__, str(there.fileno()), *imports], pass_fds=[there.fileno()],
                     env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    there.close()
    return here


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def keep(status: int) -> None:
    """Forks, and returns in the program. The keeper writes its pid and its exit status."""
    program = os.fork()
    if program == 0:
        os.close(status)
        return
    os.write(status, f"{program}\n".encode())
    ended = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    os.write(status, f"{ended}\n".encode())
    os._exit(0)


def next_program(channel: socket.socket) -> list[str]:
    """Forks for each request. Returns a request's words in the process that is to run them."""
    while True:
        request, ends, _, _ = socket.recv_fds(channel, MOST_BYTES, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            break
        for end in ends:
            os.close(end)
    channel.close()
    end_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keep(ends[3])
    end_with_parent()
    os.setpgid(0, 0)
    for number, end in enumerate(ends[:3]):
        os.dup2(end, number)
        os.close(end)
    wanted = json.loads(request)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    if "torch" in sys.modules:
        sys.modules["torch"].distributed.set_debug_level_from_env()  # which torch does when it is imported
    return wanted["words"]


def run(words: list[str]) -> None:
    """Runs `-c CODE`, `-m MODULE` or a file with its arguments, as the interpreter would."""
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[0] = ""
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = ""
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def run_to_its_end(words: list[str]) -> None:
    """Runs the program. When it ends well and $WARM_START_SHORT_END is set, the process ends before the interpreter and
    torch free what they have, which takes 0.3 s of a core. What the program and tally do at the end runs."""
    short = os.environ.pop(SHORT_END, None)
    if os.environ.get("PYTHONFAULTHANDLER"):  # which the interpreter reads when it starts
        faulthandler.enable()
    try:
        run(words)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    if short:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    gc.disable()
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.enable()
    gc.freeze()  # at its end a program would look at each of these objects, and so copy its page
    run_to_its_end(next_program(socket.socket(fileno=int(sys.argv[1]))))
