#!/usr/bin/env python3
"""What a region of some GiB costs everybody else at its node.

One client registers it, deregisters it, registers it again and hangs up. Meanwhile a second one asks
node.status, and a third registers and deregisters 64 KiB. Of each: the longest answer, in ms. Takes
--gib of memory.
"""

import argparse
import fcntl
import json
import os
import socket
import threading
import time
from pathlib import Path

from running_node import RunningNode

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
SEGMENT_BYTES = 4 << 20  # more than rings of any credit take


class Client:
    """Speaks the control protocol, with descriptors."""

    def __init__(self, address: str):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(address.removeprefix("unix:"))
        self.lines = self.socket.makefile()

    def call(self, method: str, params: dict, fds: list[int] = ()) -> dict:
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n"
        socket.send_fds(self.socket, [line.encode()], list(fds))
        reply = json.loads(self.lines.readline())
        if "error" in reply:
            raise SystemExit(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def open(self, job: str) -> "Client":
        opened = self.call("session.open", {"version": 1, "job": job, "ranks": 1, "rank": 0})
        self.doorbells = [socket.socketpair() for _ in range(opened["lanes"])]
        self.call("session.attach", {},
                  [populated(SEGMENT_BYTES), *(there.fileno() for _, there in self.doorbells)])
        return self

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def populated(size: int) -> int:
    fd = os.memfd_create("region", os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


class Longest(threading.Thread):
    """Does something again and again until it is stopped; the longest that it took."""

    def __init__(self, action):
        super().__init__()
        self.action, self.over, self.seconds, self.count = action, False, 0.0, 0
        self.start()

    def run(self) -> None:
        while not self.over:
            begin = time.monotonic()
            self.action()
            self.seconds = max(self.seconds, time.monotonic() - begin)
            self.count += 1
            time.sleep(0.001)

    def stop(self) -> dict:
        self.over = True
        self.join()
        return {"longest_ms": round(1000 * self.seconds, 1), "answers": self.count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--gib", type=int, default=4)
    options = parser.parse_args()
    size = options.gib << 30
    with RunningNode(options.build, {}, []) as node:
        memory, small = populated(size), populated(64 << 10)
        large, other = Client(node.address).open("large"), Client(node.address).open("other")
        asker = Client(node.address)

        def register_small() -> None:
            region = other.call("region.register", {"bytes": 64 << 10}, [small])["region"]
            other.call("region.deregister", {"region": region})

        took = {}

        def timed(name: str, action) -> None:
            begin = time.monotonic()
            action()
            took[name] = round(time.monotonic() - begin, 2)

        askers = {"node.status": Longest(lambda: asker.call("node.status", {})),
                  "64 KiB registered": Longest(register_small)}
        timed("register_s", lambda: large.call("region.register", {"bytes": size}, [memory]))
        timed("deregister_s", lambda: large.call("region.deregister", {"region": 1}))
        timed("register_again_s", lambda: large.call("region.register", {"bytes": size}, [memory]))
        os.close(memory)
        large.close()  # the node has the last of it, which frees it
        while asker_jobs(node) != ["other"]:
            time.sleep(0.05)
        print(json.dumps({"gib": options.gib, **took,
                          **{name: one.stop() for name, one in askers.items()}}))


def asker_jobs(node: RunningNode) -> list[str]:
    client = Client(node.address)
    names = [job["name"] for job in client.call("node.jobs", {})]
    client.close()
    return names


if __name__ == "__main__":
    main()
