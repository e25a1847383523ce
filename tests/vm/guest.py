#!/usr/bin/env python3
"""Runs a command in a virtual machine that has RDMA devices, and exits with its status.

usage: guest.py [--machines N] [--memory MiB] [--timeout S] [--boot-timeout S] [--netem] [--keep-log FILE]
                -- COMMAND...

The guest is Debian's kernel in QEMU (tools/setup --vm); its file system is this machine's, and what is written to
it is lost. It stands for N machines: 1 to N, number I with the soft-RoCE device rxeI (GID index 1) on the link vI,
10.9.0.I, plugged into the port pI of a switch. `ip link set pI down` pulls the cable. With --netem the machines know
their ways to each other from the start, so that `tc qdisc add ... netem` on links and ports can lose nothing else than
what is sent; the ports are then in the namespace `switch` (ip -n switch ..., ip netns exec switch ...).

COMMAND runs as root in the repository's folder, with TALLY_VM=1 and TALLY_VM_MACHINES=N. Other exit statuses:
77 something is not installed, 124 not ended in time, 125 the guest broke.
"""

import argparse
import collections
import os
import re
import shlex
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel import Kernel, Missing, initial_file_system, require_programs  # noqa: E402
from qemu import Qemu  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SKIPPED, LATE, BROKEN = 77, 124, 125
CONSOLE_LINES = 30       # shown of a guest that broke: its last ones, or from the first that says why
CONSOLE_LINES_KEPT = 300
SAYS_WHY = re.compile("Kernel panic|BUG:")
MAX_MACHINES = 99
# Of the environment a command sees these, and those that begin so.
INHERITED = ("PATH", "LANG", "LC_ALL")
INHERITED_PREFIXES = ("TALLY_", "GTEST_", "ASAN_", "LSAN_", "TSAN_", "UBSAN_")


class GuestBroke(Exception):
    """It panicked, or ended before the command did."""


class GuestLate(Exception):
    """The command had not ended in time, or the guest had not got to it."""


@dataclass
class Guest:
    """A virtual machine for one command."""

    machines: int = 2
    memory: int = 2048         # MiB
    timeout: float = 300       # seconds that the command may take
    boot_timeout: float = 120  # and the guest until it runs it: some 5, and many more where others want the cores
    netem: bool = False
    log: IO[bytes] | None = None  # gets what the kernel prints

    def run(self, command: list[str], output: IO[bytes]) -> int:
        """The command's exit status; its output is written as it comes.

        Raises Missing, GuestLate and GuestBroke."""
        require_programs()
        kernel = Kernel()
        with initial_file_system(kernel, self.files(command)) as initial, \
                Qemu(kernel.image, initial, self.memory, ["control", "output"],
                     time.monotonic() + self.boot_timeout) as qemu:
            guest = GuestOutput(output, self.log)
            try:
                for stream, data in qemu.read():
                    guest.take(stream, data)
                    if stream == "control" and guest.status is None:
                        qemu.deadline = time.monotonic() + self.timeout
                    elif stream == "control":
                        qemu.kill()
            except TimeoutError:
                if guest.status is None:
                    raise GuestLate(self.why_late(guest)) from None
            if guest.status is None:
                raise GuestBroke(guest.why_broken())
            return guest.status

    def why_late(self, guest: "GuestOutput") -> str:
        if guest.started:
            return f"the command had not ended after {self.timeout:g} s"
        return f"the guest had not got to the command after {self.boot_timeout:g} s{guest.last_lines()}"

    def files(self, command: list[str]) -> dict[str, str]:
        """For init.sh and start.sh."""
        settings = {"directory": ROOT, "machines": self.machines, "layout": "netem" if self.netem else "bridge"}
        environment = {name: value for name, value in os.environ.items()
                       if name in INHERITED or name.startswith(INHERITED_PREFIXES)}
        environment["PATH"] = environment.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        environment |= {"HOME": "/root", "TALLY_VM": "1", "TALLY_VM_MACHINES": str(self.machines)}
        return {"settings": assignments(settings, "\n") + "\n",
                "command": f"cd {shlex.quote(str(ROOT))}\n"
                           f"exec env -i {assignments(environment, ' ')} {shlex.join(command)}\n"}


def assignments(values: dict, separator: str) -> str:
    return separator.join(f"{name}={shlex.quote(str(value))}" for name, value in values.items())


class GuestOutput:
    """What a guest prints: the command's output goes on, the console's end is kept."""

    def __init__(self, output: IO[bytes], log: IO[bytes] | None):
        self.output, self.log = output, log
        self.control = b""
        self.console: collections.deque[bytes] = collections.deque([b""], maxlen=CONSOLE_LINES_KEPT)

    def take(self, stream: str, data: bytes) -> None:
        if stream == "output":
            self.output.write(data)
            self.output.flush()
        elif stream == "control":
            self.control += data
        else:
            first, *others = data.split(b"\n")
            self.console[-1] += first
            self.console.extend(others)
            if self.log:
                self.log.write(data)

    @property
    def started(self) -> bool:
        return self.control.startswith(b"started\n")

    @property
    def status(self) -> int | None:
        """start.sh's last line: ended STATUS."""
        last = self.control.split(b"\n")[-2:]
        return int(last[0].split()[1]) if last[0].startswith(b"ended ") else None

    def why_broken(self) -> str:
        when = "while the command ran" if self.started else "before it got to the command"
        return f"the guest ended {when}{self.last_lines()}"

    def last_lines(self) -> str:
        lines = [line.decode(errors="replace").rstrip() for line in self.console]
        why = next((place for place, line in enumerate(lines) if SAYS_WHY.search(line)), -CONSOLE_LINES)
        shown = lines[why:][:CONSOLE_LINES]
        return "; its console:" + ("".join(f"\n  {line}" for line in shown if line) or " nothing")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=Guest.machines, choices=range(1, MAX_MACHINES + 1),
                        metavar="N", help=f"simulated machines (default {Guest.machines})")
    parser.add_argument("--memory", type=int, default=Guest.memory, metavar="MiB",
                        help=f"of the guest (default {Guest.memory}); files it writes count")
    parser.add_argument("--timeout", type=float, default=Guest.timeout, metavar="S",
                        help=f"how long the command may take (default {Guest.timeout} s)")
    parser.add_argument("--boot-timeout", type=float, default=Guest.boot_timeout, metavar="S",
                        help=f"how long the guest may take to get to it (default {Guest.boot_timeout} s)")
    parser.add_argument("--netem", action="store_true", help="a layout in which loss can only meet what is sent")
    parser.add_argument("--keep-log", type=argparse.FileType("wb", 0), metavar="FILE",
                        help="where to write what the guest's kernel prints")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="after --, with its arguments")
    return parser.parse_args()


def end_on_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # guest.py ... | head


def main() -> int:
    options = parse_arguments()
    end_on_signals()
    guest = Guest(options.machines, options.memory, options.timeout, options.boot_timeout, options.netem,
                  options.keep_log)
    try:
        return guest.run(options.command, sys.stdout.buffer)
    except Missing as missing:
        print(f"vm: {missing}")
        return SKIPPED
    except GuestLate as late:
        print(f"vm: {late}", file=sys.stderr)
        return LATE
    except GuestBroke as broke:
        print(f"vm: {broke}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
