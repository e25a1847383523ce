#!/usr/bin/env python3
"""What sessions cost: N of them to one node, by a transport; time to open, memory at the node and at the client.

One process opens all ranks of a job of N. Of the node and of the client: resident memory and pinned memory before and
after, divided by the sessions.

usage: sessions.py [--build DIR] [--transport shm|fabric|verbs[:DEVICE]] [--sessions N] [--shards N] [--credit N]
                   [--node-device D] [--bar KIB] [--json FILE]
"""

import argparse
import ctypes
import json
import os
import re
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bar  # noqa: E402
from running_node import RunningNode, default_build, free_port  # noqa: E402


class Options(ctypes.Structure):
    """tally_session_options of tally.h"""

    _fields_ = [("size", ctypes.c_size_t), ("address", ctypes.c_char_p), ("job", ctypes.c_char_p),
                ("token", ctypes.c_char_p), ("rank", ctypes.c_uint32), ("ranks", ctypes.c_uint32),
                ("connect_timeout_ms", ctypes.c_uint32), ("default_deadline_ms", ctypes.c_uint32),
                ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p), ("ibv_pd", ctypes.c_void_p),
                ("transport", ctypes.c_char_p)]


def memory_of(pid: int) -> int:
    """Bytes: resident, and pinned beyond that."""
    status = Path(f"/proc/{pid}/status").read_text()
    kib = {name: int(value) for name, value in re.findall(r"^(Vm\w+):\s+(\d+) kB", status, re.M)}
    return (kib["VmRSS"] + max(0, kib.get("VmPin", 0) - kib["VmRSS"])) << 10


def open_all(library: ctypes.CDLL, address: str, transport: str, count: int, ranks: range | None = None,
             job: str = "sessions") -> list:
    """Sessions of a job of `count` ranks: all of them, or these."""
    sessions = []
    for rank in range(count) if ranks is None else ranks:
        options = Options(size=ctypes.sizeof(Options), address=address.encode(), job=job.encode(), rank=rank,
                          ranks=count, connect_timeout_ms=120_000, transport=transport.encode())
        session = ctypes.c_void_p()
        if library.tally_open(ctypes.byref(options), ctypes.byref(session)) != 0:
            library.tally_last_error.restype = ctypes.c_char_p
            raise SystemExit(f"rank {rank}: {library.tally_last_error(None).decode()}")
        sessions.append(session)
    return sessions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--transport", default="fabric")
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--credit", type=int, default=256, help="operations outstanding of a session at a shard")
    parser.add_argument("--node-device", default="", help="of verbs, at the node")
    bar.add_option(parser, "a session takes more than X KiB at the node")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    library = ctypes.CDLL(str(arguments.build / "client/libtally.so"))
    tcp = f"tcp:127.0.0.1:{free_port()}"
    flags = ["--listen-tcp", tcp, "--shards", str(arguments.shards), "--credit", str(arguments.credit)]
    if arguments.node_device:
        flags += ["--verbs", "on", "--device", arguments.node_device]
    with RunningNode(arguments.build, {}, flags) as node:
        address = node.address if arguments.transport == "shm" else tcp
        # What the first session of a job makes for all.
        for session in open_all(library, address, arguments.transport, 1):
            library.tally_close(session)
        before, own_before = memory_of(node.pid), memory_of(os.getpid())
        began = time.monotonic()
        sessions = open_all(library, address, arguments.transport, arguments.sessions)
        seconds = time.monotonic() - began
        row = {"transport": arguments.transport, "sessions": arguments.sessions, "shards": arguments.shards,
               "credit": arguments.credit,
               "ms_per_session": 1e3 * seconds / arguments.sessions,
               "node_kib_per_session": (memory_of(node.pid) - before) / 1024 / arguments.sessions,
               "client_kib_per_session": (memory_of(os.getpid()) - own_before) / 1024 / arguments.sessions}
        for session in sessions:
            library.tally_close(session)
    for name, value in row.items():
        print(f"{name:>24} {value:.1f}" if isinstance(value, float) else f"{name:>24} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(row, indent=1) + "\n")
    return bar.status(arguments.bar, {"KiB per session at the node": row["node_kib_per_session"]}, less_is_better=True)


if __name__ == "__main__":
    sys.exit(main())
