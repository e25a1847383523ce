"""A QEMU process with a console and ports, whose ends here are sockets; it does not outlive this process."""

import os
import selectors
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, Iterator

from kernel import program

CORES = 2
# /dev/kvm is left alone: guests were seen to hang with it, where this machine is a guest itself.
MACHINE = ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CORES), "-nodefaults", "-no-user-config",
           "-no-reboot", "-display", "none"]
# A panic restarts at once, which QEMU, by -no-reboot, takes as the end. The kernel's trial of its timer fails where
# QEMU gets no core for a while; a core whose one timer interrupt is lost then sleeps for ever, so it has them always.
KERNEL_LINE = ("console=ttyS0 panic=-1 oops=panic no_timer_check nohz=off highres=off mitigations=off "
               "random.trust_cpu=on")


class Qemu:
    """Streams: "console", and one for each port, in the order of the guest's /dev/vport*p1, p2."""

    def __init__(self, kernel: Path, initial: IO[bytes], memory: int, ports: list[str], deadline: float):
        pairs = {name: socket.socketpair() for name in ["console", *ports]}
        self.ends = {name: pair[0] for name, pair in pairs.items()}
        theirs = {name: pair[1] for name, pair in pairs.items()}
        self.deadline = deadline  # by time.monotonic()
        self.selector = selectors.DefaultSelector()
        for name, end in self.ends.items():
            self.selector.register(end, selectors.EVENT_READ, name)
        command = [program("setpriv"), "--pdeathsig", "KILL", program("qemu-system-x86_64"), *MACHINE,
                   "-name", f"tally-vm-{os.getpid()}", "-m", str(memory), "-kernel", str(kernel),
                   "-initrd", f"/dev/fd/{initial.fileno()}", "-append", KERNEL_LINE, *shared_root(),
                   *serial_devices(theirs, ports)]
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=theirs["console"].fileno(), stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us, who then end it
                pass_fds=[initial.fileno(), *(end.fileno() for end in theirs.values())])
        finally:
            for end in theirs.values():
                end.close()

    def read(self) -> Iterator[tuple[str, bytes]]:
        """What arrives, as (stream, bytes), until QEMU has ended; TimeoutError at the deadline, which may be moved."""
        while self.selector.get_map():
            left = self.deadline - time.monotonic()
            if left <= 0 or not (ready := self.selector.select(left)):
                raise TimeoutError
            for key, _ in ready:
                if data := receive(self.ends[key.data]):
                    yield key.data, data
                else:
                    self.selector.unregister(key.fileobj)

    def kill(self) -> None:
        """What it has written before can still be read."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Qemu":
        return self

    def __exit__(self, *_) -> None:
        self.kill()
        self.selector.close()
        for end in self.ends.values():
            end.close()


def receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except ConnectionResetError:  # killed before it had read what was sent to it
        return b""


def shared_root() -> list[str]:
    """The whole file system of this machine, which the guest mounts as `host`; nothing can be written to it."""
    return ["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]


def serial_devices(ends: dict[str, socket.socket], ports: list[str]) -> list[str]:
    arguments = []
    for name, end in ends.items():
        arguments += ["-chardev", f"socket,id={name},fd={end.fileno()}"]
    arguments += ["-serial", "chardev:console", "-device", "virtio-serial-pci"]
    for number, name in enumerate(ports, 1):
        arguments += ["-device", f"virtserialport,chardev={name},nr={number}"]
    return arguments
