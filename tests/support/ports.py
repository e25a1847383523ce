"""TCP ports for servers that tests and measurements start."""

import contextlib
import random
import socket

# Below those that the kernel gives to connections, which would have one before its server listens.
RANGE = range(16_000, 32_000)


def free_port(count: int = 1) -> int:
    """The first of so many in a row that nobody listens at on 127.0.0.1 just now."""
    while True:
        first = random.choice(RANGE)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
