#!/usr/bin/env python3
"""Boots guests: the command's way in and out of them, RDMA between their machines, and that nothing is left."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import kernel  # noqa: E402

GUEST = [sys.executable, str(HERE / "guest.py")]
SKIPPED, LATE, BROKEN = 77, 124, 125
TIMEOUT = 250  # seconds for anything; a boot takes some 5


def qemu_of(pid: int) -> list[int]:
    """Processes that guest.py, when it was this process, has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"tally-vm-{pid}".encode() in arguments:
            found.append(int(folder.name))
    return found


def eventually(holds, seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class GuestTest(unittest.TestCase):
    """Each test may leave nothing: no process, no file."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tally-vm-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "console.log"

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen:
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        process = subprocess.Popen([*GUEST, *arguments], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "TMPDIR": str(temporary), **environment})
        self.addCleanup(process.kill)
        return process

    def finish(self, process: subprocess.Popen) -> tuple[int, str, str]:
        """(exit status, output, errors)"""
        output, errors = process.communicate(timeout=TIMEOUT)
        self.assertTrue(eventually(lambda: not qemu_of(process.pid)), "QEMU is still there")
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return process.returncode, output, errors

    def run_guest(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        return self.finish(self.start(*arguments, **environment))

    def test_machines_on_a_bridge(self):
        script = """sh tests/vm/traffic.sh bridge; echo "$TALLY_VM $TALLY_VM_MACHINES $TALLY_VM_TRY $PWD $1"
                    echo changed >README.md && cat README.md; sleep 1000 & echo bad >&2; exit 3"""
        readme = ROOT / "README.md"
        before = readme.read_bytes()
        status, output, errors = self.run_guest(
            "--machines", "3", "--timeout", "200", "--keep-log", str(self.log), "--", "sh", "-c", script, "sh",
            "it's", TALLY_VM_TRY="two  spaces")
        self.assertEqual(output.splitlines(), [
            "active=3", "mtu_4096=3", "pingpong=yes", "write=yes", "read=yes",
            "sending=yes", "unplugged=yes", "others=yes", "plugged_again=yes",
            f"1 3 two  spaces {ROOT} it's", "changed", "bad"], errors)
        self.assertEqual((status, errors), (3, ""))
        self.assertIn("rdma_rxe: loaded", self.log.read_text(errors="replace"))
        self.assertEqual(readme.read_bytes(), before)

    def test_netem_meets_packets_and_a_panic_is_reported(self):
        panic = "sh tests/vm/traffic.sh netem; sleep 0.5; echo c >/proc/sysrq-trigger; sleep 1000"
        status, output, errors = self.run_guest(
            "--machines", "3", "--timeout", "200", "--netem", "--", "sh", "-c", panic)
        self.assertEqual(output.splitlines(), ["pingpong=yes", "some_loss=yes", "dropped=yes", "all_lost=no"], errors)
        self.assertEqual(status, BROKEN)
        self.assertIn("the guest ended while the command ran", errors)
        self.assertIn("Kernel panic", errors)

    def test_a_command_that_never_ends_is_ended(self):
        status, output, errors = self.run_guest(
            "--machines", "1", "--timeout", "10", "--", "sh", "-c", "echo begun; while :; do sleep 1; done")
        self.assertEqual((status, output), (LATE, "begun\n"), errors)
        self.assertIn("the command had not ended after 10 s", errors)

    def test_a_guest_that_does_not_get_to_the_command_shows_its_console(self):
        status, output, errors = self.run_guest("--boot-timeout", "3", "--", "echo", "never")
        self.assertEqual((status, output), (LATE, ""), errors)
        self.assertIn("had not got to the command after 3 s; its console:", errors)

    def test_qemu_ends_with_us(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = self.start("--", "sleep", "1000")
            self.assertTrue(eventually(lambda: qemu_of(process.pid)))
            process.send_signal(number)
            status, output, _ = self.finish(process)
            self.assertIn(status, (-number, 128 + number))
            self.assertEqual(output, "")

    def test_what_is_missing_is_named(self):
        for missing, reason in {"PATH": "qemu-system-x86_64", "TALLY_VM_CACHE": "kernel"}.items():
            status, output, errors = self.run_guest("--", "true", **{missing: str(self.folder)})
            self.assertEqual((status, errors), (SKIPPED, ""))
            self.assertIn(reason, output)
            self.assertIn("tools/setup --vm", output)


if __name__ == "__main__":
    try:
        kernel.require_programs()
        kernel.Kernel()
    except kernel.Missing as lacking:
        print(f"vm: {lacking}")
        sys.exit(SKIPPED)
    unittest.main()
