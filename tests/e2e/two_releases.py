#!/usr/bin/env python3
"""Runs two releases against each other: each one's clients with the other's node, over shm and over
fabric on loopback, every result checked. By hand, with two build folders:

    tests/e2e/two_releases.py /path/to/the/older/build build

Exit status: 0 when every run had right results.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402
from processes import Failed, Process, Tallyd, end_all  # noqa: E402

RUN = 120  # seconds


def run(node_build: Path, client_build: Path, transport: str, kind: str) -> str:
    """What was wrong; empty where nothing was."""
    tcp = f"tcp:127.0.0.1:{free_port()}"
    try:
        with Tallyd(node_build / "control/tallyd", "--listen-tcp", tcp) as node:
            Process([client_build / "perf/tally-perf", kind, "--spawn", "3", "--check", "--iters", "20", "--min-bytes", "4",
                     "--max-bytes", "4M", "--transport", transport, "--address",
                     node.address if transport == "shm" else tcp]).finish(timeout=RUN)
    except Failed as failure:
        return str(failure)
    finally:
        end_all()
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs two releases against each other.")
    parser.add_argument("older", type=Path, help="a build folder")
    parser.add_argument("newer", type=Path, help="another one")
    builds = parser.parse_args()
    for build in (builds.older, builds.newer):
        if not (build / "control/tallyd").exists():
            parser.error(f"{build} has no control/tallyd: give a folder that tools/build made")
    failed = 0
    for node, client in ((builds.older, builds.newer), (builds.newer, builds.older)):
        for transport in ("shm", "fabric"):
            for kind in ("allreduce", "reducescatter", "broadcast"):
                wrong = run(node, client, transport, kind)
                print(f"{'FAILED' if wrong else 'ok'}: node of {node}, clients of {client}, "
                      f"{transport}, {kind}", flush=True)
                if wrong:
                    print(wrong)
                failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
