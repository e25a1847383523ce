"""What tests of nodes of a training's own share: a place for them, and that nothing stays there."""

import os
import tempfile
import time
import unittest
from pathlib import Path

from processes import end_all


def wait_for(condition, what: str, seconds: float = 30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.05)


def children_named(name: str, directory: str) -> list:
    """Processes of this program that serve a socket in the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if arguments[0].endswith(name) and any(directory in argument for argument in arguments):
            found.append(int(entry.name))
    return found


class WithNodesOfItsOwn(unittest.TestCase):
    """After each test its processes are ended. A node ends seconds after its last rank, so a check after the last test
    of the file finds the nodes that any test has left."""

    def setUp(self):
        # Nodes of the ranks' own have their sockets here.
        self.place = tempfile.TemporaryDirectory(prefix="tally-failure-")
        os.environ["XDG_RUNTIME_DIR"] = self.place.name
        os.environ.pop("TALLY_ADDRESS", None)
        unittest.addModuleCleanup(self.nothing_is_left)
        self.addCleanup(end_all)

    def nothing_is_left(self):
        try:
            wait_for(lambda: not self.nodes(), f"all nodes of {self.id()} are gone")
            wait_for(lambda: not os.listdir(self.place.name), f"the directories of the nodes of {self.id()} are gone")
        finally:
            self.place.cleanup()

    def nodes(self):
        return children_named("tallyd", self.place.name)
