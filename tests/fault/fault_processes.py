"""Child processes for random_faults.py: lines with a deadline, and what the kernel says of them."""

import argparse
import os
import select
import signal
import subprocess
import time
from pathlib import Path

PATIENCE = 60  # seconds for a line; more than any promise of the protocol


def executable(path: str) -> str:
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is no program: tools/build makes it")
    return path


class Hang(Exception):
    """Somebody was not told anything in time."""


class Wrong(Exception):
    """Something that must not be; its kind is counted."""

    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Child:
    """A process whose output is read line by line."""

    running: set["Child"] = set()

    def __init__(self, command, step: str = "", quiet: bool = False):
        self.name = " ".join(str(word) for word in command[1:5])
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            start_new_session=True, env={**os.environ, "TALLY_DEBUG_STEP": step})
        self.pending = b""
        Child.running.add(self)

    def tell(self, command: str) -> None:
        os.write(self.process.stdin.fileno(), command.encode() + b"\n")

    def has_line(self) -> bool:
        return b"\n" in self.pending or bool(select.select([self.process.stdout], [], [], 0)[0])

    def line(self, patience: float = PATIENCE) -> str:
        until = time.monotonic() + patience
        while b"\n" not in self.pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Hang(f"no line from {self.name}")
            got = os.read(self.process.stdout.fileno(), 4096)
            if not got:
                raise Hang(f"{self.name} ended with {self.process.wait(10)}, line expected")
            self.pending += got
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode()

    def expect(self, expected: str, patience: float = PATIENCE) -> None:
        if (told := self.line(patience)) == expected:
            return
        wrong_elements = "wrong " in told and not told.endswith("wrong 0")
        raise Wrong("wrong elements" if wrong_elements else "disturbed",
                    f"{self.name} said {told!r}, expected {expected!r}")

    def wait(self, patience: float = PATIENCE) -> int:
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired as late:
            raise Hang(f"{self.name} does not end") from late

    def stopped(self) -> bool:
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return status.rsplit(")", 1)[1].split()[0] == "T"

    def end(self) -> None:
        """With what it has started itself."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        Child.running.discard(self)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def shared_mappings(pid: int) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("/memfd:")


def free_hugepages() -> str:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free"):
            return line
    return ""
