#!/usr/bin/env python3
"""A node beside thousands of strangers: connections that open no session, most idle, some with half a request.

usage: strangers_test.py TALLYD TALLYCTL FAULT_RANK [--strangers N] [--half N] [--seconds S] [--descriptors N,N]

With few and with many descriptors (RLIMIT_NOFILE of the node): an operator's tallyctl and a new session over TCP answer
within a second, a running job goes on with right results, and the node grows by less than 64 MiB. Spans with and without
strangers take turns; the goodput of the job with them is compared with that without. The soak tier is the whole
measurement: 10,000 strangers for 60 s, and at least 0.95 of the goodput.
"""

import argparse
import contextlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from ports import free_port  # noqa: E402
from processes import Process, Tallyd, end_all, program  # noqa: E402

TIER = os.environ.get("TALLY_TEST_TIER", "default")
# strangers, of these with half a request, seconds of a measurement, and the goodput that the job must keep. In the
# default tier other tests run beside this one, so that the ratio only shows a job that stands still.
OF_TIER = {"fast": (500, 50, 2, 0), "default": (2000, 200, 5, 0.3), "soak": (10_000, 1000, 60, 0.95)}
SPAN = 1.0  # seconds with strangers, then without
ELEMENTS = 1 << 16
MOST_GROWTH = 64 << 20
MOST_WAIT = 1.0
MOST_TRIES = 10  # connections for one session
SANITIZED = bool(os.environ.get("TALLY_SANITIZER"))


def pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Pss in smaps_rollup")


class Node(Tallyd):
    """A tallyd that may open so many files, with a job of two ranks."""

    def __init__(self, programs: argparse.Namespace, folder: Path, descriptors: int):
        self.programs, self.port, self.path = programs, free_port(), str(folder / "tallyd.sock")
        folder.chmod(0o755)  # the strangers are another user

        def limited(command: list, **more) -> subprocess.Popen:
            return subprocess.Popen(["prlimit", f"--nofile={descriptors}:{descriptors}", *command], **more)

        super().__init__(programs.tallyd, "--listen-tcp", f"tcp:127.0.0.1:{self.port}", "--shards", "1", folder=folder,
                         config="[limits]\nmax_jobs = 1000\n", popen=limited)
        self.ranks = [Process([programs.fault_rank, self.address, "train", rank, 2, ELEMENTS, 0]) for rank in (0, 1)]
        for rank in self.ranks:
            rank.expect("^ready$")
        self.operations = 20

    def goodput(self, seconds: float) -> float:
        """Operations per second of the job in a span of at least so long; all results are verified."""
        began, done = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            for rank in self.ranks:
                rank.send(f"loop 1 {ELEMENTS} {self.operations}")
            for rank in self.ranks:
                rank.expect(f"^looped {self.operations} wrong 0$")
            done += self.operations
        return done / (time.monotonic() - began)

    def ask_status(self) -> float:
        """The seconds that an operator waits for `tallyctl status`."""
        began = time.monotonic()
        subprocess.run([self.programs.tallyctl, "--address", self.address, "status"], check=True,
                       stdout=subprocess.DEVNULL, timeout=30)
        return time.monotonic() - began

    def open_session(self, number: int) -> float:
        """The seconds until a rank from an address of its own has a session, over TCP. Like a client, it connects again
        when the node closed its connection to make room before it had read the first request."""
        began = time.monotonic()
        answer = None
        for _ in range(MOST_TRIES):
            answer = self.try_session(number)
            if answer is None:
                return time.monotonic() - began
            assert answer["error"]["data"]["name"] == "again", answer
        raise AssertionError(f"no session after {MOST_TRIES} connections: {answer}")

    def try_session(self, number: int) -> dict | None:
        """The error with which the node refused the session, if it did."""
        with socket.socket() as rank:
            rank.settimeout(30)
            rank.bind(("127.0.0.77", 0))
            rank.connect(("127.0.0.1", self.port))
            answers = rank.makefile("r")
            parameters = {"version": 1, "job": f"probe-{number}", "rank": 0, "ranks": 1}
            for method in ("job.open", "session.open"):
                request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
                with contextlib.suppress(BrokenPipeError):  # the node has said why, and closed it
                    rank.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(answers.readline())
                if "result" not in answer:
                    return answer
        return None

    def connections(self) -> dict:
        answer = subprocess.run([self.programs.tallyctl, "--address", self.address, "--json", "status"], check=True,
                                capture_output=True, timeout=30).stdout
        return json.loads(answer)["connections"]


def measure(programs: argparse.Namespace, descriptors: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="tally-strangers-") as folder, contextlib.ExitStack() as processes:
        processes.callback(end_all)
        node = Node(programs, Path(folder), descriptors)
        strangers = Process([sys.executable, ROOT / "tests/fault/strangers.py", node.port, node.path])
        with_them, without, waits, sessions, made = [], [], [], [], 0
        before = most = pss(node.pid)
        node.goodput(SPAN)
        before = most = pss(node.pid)
        end, number = time.monotonic() + programs.seconds, 0
        while time.monotonic() < end:
            strangers.send(f"on {programs.strangers} {programs.half}")
            strangers.expect("^on$")
            span = time.monotonic() + max(SPAN, programs.seconds / 10)
            while time.monotonic() < span:
                with_them.append(node.goodput(SPAN / 2))
                waits.append(node.ask_status())
                sessions.append(node.open_session(number))
                number += 1
                most = max(most, pss(node.pid))
            counts = node.connections()
            strangers.send("off")
            made = int(strangers.line().split()[1])
            time.sleep(0.2)
            without += [node.goodput(SPAN / 2) for _ in range(2)]
        lines = node.output().count("\n")
        strangers.end()
        for rank in node.ranks:
            rank.end()
        node.stop()
    return {"descriptors": descriptors, "connections": made, "status_s": max(waits), "session_s": max(sessions),
            "goodput": statistics.median(with_them) / statistics.median(without), "growth": most - before,
            "log_lines": lines, "anonymous": counts["anonymous"], "counts": counts}


def main() -> int:
    strangers, half, seconds, kept = OF_TIER[TIER]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tallyd", type=program)
    parser.add_argument("tallyctl", type=program)
    parser.add_argument("fault_rank", type=program)
    parser.add_argument("--strangers", type=int, default=strangers)
    parser.add_argument("--half", type=int, default=half, help="of these, those that have sent half a request")
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--descriptors", default="300,65536", help="that the node may have")
    programs = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root: strangers by the Unix socket are another user")
        return 77
    wrong = []
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # not every root may raise it
    for descriptors in (min(int(wanted), most) for wanted in programs.descriptors.split(",")):
        found = measure(programs, descriptors)
        print(f"{descriptors} descriptors, {programs.strangers} strangers, {found['connections']} connections: status "
              f"{found['status_s'] * 1e3:.0f} ms, new session {found['session_s'] * 1e3:.1f} ms at most; goodput "
              f"{found['goodput']:.2f}; the node grew by {found['growth'] / 2**20:.1f} MiB; {found['log_lines']} lines of "
              f"log; {found['counts']}", flush=True)
        bars = {"tallyctl status takes more than a second": found["status_s"] <= MOST_WAIT or SANITIZED,
                "a new session takes more than a second": found["session_s"] <= MOST_WAIT or SANITIZED,
                f"the job keeps less than {kept} of its goodput": found["goodput"] >= kept or SANITIZED,
                "the node grows by 64 MiB or more": found["growth"] < MOST_GROWTH or SANITIZED,
                "more strangers than the limit": found["anonymous"] <= min(512, descriptors // 8),
                "the log has a line for each stranger": found["log_lines"] < found["connections"] / 4 + 100}
        wrong += [f"{descriptors} descriptors: {what}" for what, fine in bars.items() if not fine]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
