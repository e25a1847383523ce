"""A run without faults, in which a verdict, a repair or a missing node is a finding."""

import json
import subprocess
import sys
import time

LOOK_S = 5


class Busy:
    """A context in which a number of processes compute all the time."""

    def __init__(self, processes: int):
        self._count = processes
        self._processes = []

    def __enter__(self) -> None:
        for _ in range(self._count):
            self._processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))

    def __exit__(self, *exception) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Watch:
    """Looks every few seconds whether a node has a verdict, and whether a node is missing."""

    def __init__(self, world, found):
        """found: called with the text of each finding."""
        self._world, self._found = world, found
        self._next = 0.0

    def look(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_S
        acting = self._world.acting(set(self._world.names))
        members = self._world.members(acting) if acting else 0
        if members < len(self._world.names):
            self._found(f"the coordinator {acting or '(none acts)'} has {members} of {len(self._world.names)} nodes")
        for name in self._world.names:
            for job in json.loads(self._world.ctl("--json", "jobs", node=name)):
                for verdict in job["stuck"]:
                    self._found(f"node {name} has a verdict: {verdict['text']}")
