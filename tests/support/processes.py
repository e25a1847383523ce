"""Programs that tests and measurements run, and tallyd among them."""

import argparse
import contextlib
import ctypes
import functools
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

TIMEOUT = 180 if os.environ.get("TALLY_SANITIZER") else 60  # seconds; more than any promise of the protocol
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def program(path: str) -> str:
    """For argparse: the path of a program that was built."""
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is no program: tools/build makes it")
    return path


class Failed(AssertionError):
    """A process does or prints something else than expected."""


class Hang(Failed):
    """A process does not do in time what is expected."""


class Process:
    """A program in a process group of its own, which is killed when this process ends.

    environment: added to that of this process. popen: starts it, as subprocess.Popen does. Its output is kept: a failure
    shows it. Its standard error goes to a file, so that lines have the standard output alone.
    """

    running: set["Process"] = set()

    def __init__(self, command, environment=None, popen=subprocess.Popen):
        words = [str(word) for word in command]
        self.name = " ".join([Path(words[0]).name, *words[1:6]])
        self._errors = tempfile.TemporaryFile()
        self.popen = popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, process_group=0,
                           env={**os.environ, **(environment or {})},
                           preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.pid = self.popen.pid
        self._text = b""
        self._taken = 0  # bytes of the text that line() has returned
        self._ended = False
        Process.running.add(self)

    def _read(self, seconds: float) -> bool:
        """Whether more output comes in this time."""
        if self._ended:
            time.sleep(seconds)
            return False
        if not select.select([self.popen.stdout], [], [], seconds)[0]:
            return False
        got = os.read(self.popen.stdout.fileno(), 1 << 16)
        self._text += got
        self._ended = not got
        return bool(got)

    def output(self) -> str:
        """Everything that it has printed, the standard output first."""
        if self in Process.running:
            while self._read(0):
                pass
            size = os.fstat(self._errors.fileno()).st_size
            self._output = (self._text + os.pread(self._errors.fileno(), size, 0)).decode(errors="replace")
        return self._output

    @property
    def stdout(self) -> str:
        """What it has printed there until now."""
        return self._text.decode(errors="replace")

    def fail(self, what: str, kind: type = Failed) -> None:
        raise kind(f"{self.name} {what}; its output:\n{self.output()[-6000:]}")

    def send(self, line: str) -> None:
        """A line of its standard input."""
        os.write(self.popen.stdin.fileno(), line.encode() + b"\n")

    def has_line(self) -> bool:
        self._read(0)
        return b"\n" in self._text[self._taken:]

    def line(self, timeout: float = TIMEOUT) -> str:
        """The next line of its standard output."""
        until = time.monotonic() + timeout
        while (end := self._text.find(b"\n", self._taken)) < 0:
            if self._ended:
                self.fail(f"ended with {self.popen.wait(TIMEOUT)}, line expected", Hang)
            if (left := until - time.monotonic()) <= 0:
                self.fail(f"prints no line within {timeout} s", Hang)
            self._read(left)
        begin, self._taken = self._taken, end + 1
        return self._text[begin:end].decode(errors="replace")

    def expect(self, pattern: str, timeout: float = TIMEOUT) -> str:
        """The next line, which has to match."""
        line = self.line(timeout)
        if not re.search(pattern, line):
            self.fail(f"printed {line!r}, expected {pattern!r}")
        return line

    def skip_to(self, pattern: str, timeout: float = TIMEOUT) -> str:
        """The first line that matches."""
        while not re.search(pattern, line := self.line(timeout)):
            pass
        return line

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self.popen.poll()

    def wait(self, timeout: float = TIMEOUT) -> int:
        """The exit status."""
        until = time.monotonic() + timeout
        while (status := self.popen.poll()) is None:
            if time.monotonic() > until:
                self.fail(f"does not end within {timeout:.0f} s", Hang)
            self._read(0.005)  # a program whose output nobody reads does not end
        return status

    def finish(self, status: int | None = 0, timeout: float = TIMEOUT) -> str:
        """The output when it has ended with this status; None: with any."""
        ended = self.wait(timeout)
        if status not in (ended, None):
            self.fail(f"ended with {ended}, expected {status}")
        return self.output()

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def is_paused(self) -> bool:
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return status.rsplit(")", 1)[1].split()[0] == "T"

    def children(self) -> list[int]:
        """The processes that its main thread started, in this order."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def end(self) -> None:
        """Kills it and what it started."""
        if self not in Process.running:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        self.output()
        Process.running.discard(self)
        for file in (self.popen.stdin, self.popen.stdout, self._errors):
            file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.end()


def end_all() -> None:
    for process in list(Process.running):
        process.end()


@functools.cache
def knows_insecure(tallyd) -> bool:
    """Releases before 0.2 serve everybody without being told to."""
    return "--insecure" in subprocess.run([tallyd, "--help"], capture_output=True, text=True).stdout


class Tallyd(Process):
    """A tallyd that is ready, by default in a temporary folder of its own.

    "{address}" in a flag is its own address. config: the text of its configuration file. wait: False where the caller calls
    ready() itself. serves_all: on TCP it serves everybody, and what this process starts from then on speaks in clear there;
    False for tests of security.
    """

    def __init__(self, program, *flags, folder=None, name: str = "tallyd", config: str = "", wait: bool = True,
                 serves_all: bool = True, **more):
        self._own = None if folder else tempfile.TemporaryDirectory(prefix="tally-node-")
        self._socket = Path(folder or self._own.name, f"{name}.sock")
        self.address = f"unix:{self._socket}"
        if config:
            file = self._socket.with_suffix(".toml")
            file.write_text(config)
            flags = ("--config", file, *flags)
        words = [str(flag).replace("{address}", self.address) for flag in flags]
        if serves_all and "--listen-tcp" in words and knows_insecure(program):
            words.append("--insecure")
            os.environ["TALLY_INSECURE"] = "1"
        self._command, self._more = [program, "--listen", self.address, "--ready-fd", "1", *words], more
        super().__init__(self._command, **more)
        if wait:
            self.ready()

    def restart(self) -> None:
        """Kills it, and starts it at the same address."""
        self.kill()
        super().__init__(self._command, **self._more)
        self.ready()

    def ready(self) -> None:
        try:
            self.expect("^ready$")
        except Failed:
            self.end()
            raise

    def stop(self) -> None:
        """Ends it as an operator does."""
        self.signal(signal.SIGTERM)
        self.finish()
        if self._socket.exists():
            self.fail("left its socket behind")
        self.end()

    def end(self) -> None:
        super().end()
        if self._own:
            self._own.cleanup()

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.stop()
        self.end()
