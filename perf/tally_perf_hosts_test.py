#!/usr/bin/env python3
"""Runs of several hosts, which are all this one: what is served and who joins talk over loopback.

usage: tally_perf_hosts_test.py TALLY_PERF TALLYD [unittest arguments]
"""

import json
import os
import signal
import socket
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
from ports import free_port  # noqa: E402
from processes import Process, Tallyd, end_all  # noqa: E402
from tier import chosen  # noqa: E402

TALLY_PERF = TALLYD = ""
SECONDS = 100  # no run here takes as long, on a slow machine under sanitizers either
NAMED_WITHIN = 30  # seconds, for what takes some five
SMALL = ["--min-bytes", "4K", "--max-bytes", "1M", "--factor", "16", "--iters", "5"]
FOR_EVER = ["--min-bytes", "64K", "--max-bytes", "64K", "--iters", "100000000"]


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()]


class Hosts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tp-")
        self.addCleanup(directory.cleanup)
        self.scratch = Path(directory.name)
        self.where = f"127.0.0.1:{free_port(2)}"
        self.addCleanup(end_all)

    def start(self, *arguments: str) -> Process:
        return Process([TALLY_PERF, *arguments], environment={"TMPDIR": str(self.scratch), "TALLY_TOKEN": "secret:of all hosts"})

    def serve(self, kind: str, *arguments: str) -> Process:
        node = [] if "--address" in arguments else ["--tallyd", TALLYD]
        return self.start(kind, "--serve", self.where, *arguments, *node)

    def join(self, kind: str, *arguments: str) -> Process:
        return self.start(kind, "--join", self.where, *arguments)

    def document(self) -> tuple[list[str], Path]:
        file = self.scratch / "rows.json"
        return ["--json", str(file)], file

    def test_two_workers_that_join(self):
        flags, file = self.document()
        server = self.serve("allreduce", "--ranks", "2", *SMALL, "--check", *flags)
        joiner = self.join("allreduce", "--rank", "0,1")
        joiner.finish(timeout=SECONDS)
        self.assertIn("transport fabric", server.finish(timeout=SECONDS))
        document = json.loads(file.read_text())
        self.assertEqual((document["good"], document["wrong"]), (True, 0))
        self.assertEqual(document["transports"], ["fabric", "fabric"])
        self.assertGreater(document["checked"], 0)

    def test_every_kind_with_workers_on_both_sides_and_the_same_flags(self):
        for kind in ("allreduce", "reduce", "broadcast", "reducescatter", "allgather"):
            flags, file = self.document()
            same = ["--ranks", "3", *SMALL, "--check", "--transport", "fabric"]
            server = self.serve(kind, "--rank", "1", *same, "--ceiling", "--report-gbits", *flags)
            joiners = [self.join(kind, "--rank", "2", *same), self.join(kind, "--rank", "0", *same)]
            for joiner in joiners:
                joiner.finish(timeout=SECONDS)
            output = server.finish(timeout=SECONDS)
            self.assertIn("ceiling: plain sockets", output)
            for row in json.loads(file.read_text())["rows"]:
                self.assertEqual(row["wrong"], 0)
                self.assertGreater(row["ceiling_Gbps"], 0)
                self.assertAlmostEqual(row["algbw_Gbps"], row["goodput_Gbps"])

    def test_a_node_that_runs(self):
        address = f"tcp:127.0.0.1:{free_port(2)}"
        Tallyd(TALLYD, "--listen-tcp", address, folder=self.scratch)
        server = self.serve("allreduce", "--address", address, "--ranks", "2", "--rank", "0",
                            "--duration", "0.3", "--stream", "--inflight", "4", "--max-bytes", "4K",
                            "--check", "--ceiling")
        joiner = self.join("allreduce", "--rank", "1")
        joiner.finish(timeout=SECONDS)
        output = server.finish(timeout=SECONDS)
        self.assertIn("no ceiling: plain sockets would have to end where the node runs", output)
        self.assertIn("streaming", output)
        self.assertIn("# 0 wrong of", output)

    def test_options_that_differ_are_named(self):
        server = self.serve("allreduce", "--ranks", "1", "--iters", "7", "--join-timeout", "3")
        wrong = self.join("allreduce", "--rank", "0", "--iters", "8").finish(2, SECONDS)
        expected = "--iters is 8 at the host that joins and 7 at the one that serves"
        self.assertIn(expected, wrong)
        output = server.finish(3, NAMED_WITHIN)
        self.assertIn("rank 0 did not join within 3 s", output)
        self.assertIn(expected, output)

    def test_a_host_that_never_joins_is_named_to_all(self):
        server = self.serve("allreduce", "--ranks", "3", "--rank", "0", "--join-timeout", "2")
        joiner = self.join("allreduce", "--rank", "2")
        for run in (server, joiner):
            self.assertIn("rank 1 did not join within 2 s", run.finish(3, NAMED_WITHIN))

    def test_nobody_serves(self):
        output = self.join("allreduce", "--rank", "0", "--join-timeout", "0.5").finish(3, SECONDS)
        self.assertIn("is tally-perf --serve running there?", output)

    def running(self) -> tuple[Process, ...]:
        """Ranks 0 and 1 at two hosts, in the middle of what never ends."""
        server = self.serve("allreduce", "--ranks", "2", *FOR_EVER)
        joiners = [self.join("allreduce", "--rank", str(rank)) for rank in (0, 1)]
        server.skip_to("^# allreduce")
        time.sleep(0.3)
        return server, *joiners

    def test_a_killed_worker_is_named(self):
        server, survivor, joiner = self.running()
        os.kill(children(joiner.pid)[0], signal.SIGKILL)
        output = server.finish(3, NAMED_WITHIN)
        self.assertIn("rank 1 at 127.0.0.1 ended: its connection broke", output)
        self.assertIn("(rank 1 is to blame)", output)
        self.assertIn("rank 1 ended: signal 9", joiner.finish(3, NAMED_WITHIN))
        self.assertIn("rank 1 is to blame", survivor.finish(3, NAMED_WITHIN))

    def test_a_killed_joiner_takes_its_worker_along(self):
        server, survivor, joiner = self.running()
        joiner.kill()
        self.assertIn("rank 1 at 127.0.0.1 ended", server.finish(3, NAMED_WITHIN))
        survivor.finish(3, NAMED_WITHIN)

    def test_a_killed_server_ends_the_joiners(self):
        server, *joiners = self.running()
        server.kill()
        for joiner in joiners:
            joiner.finish(3, NAMED_WITHIN)

    def test_a_signal_ends_a_joiner_and_with_it_the_run(self):
        server, survivor, joiner = self.running()
        joiner.signal(signal.SIGINT)
        joiner.finish(128 + signal.SIGINT, NAMED_WITHIN)
        self.assertIn("rank 1 at 127.0.0.1", server.finish(3, NAMED_WITHIN))
        survivor.finish(3, NAMED_WITHIN)

    def test_noise_at_the_port_does_no_harm(self):
        server = self.serve("allreduce", "--ranks", "1", *SMALL, "--check")
        host, port = self.where.split(":")
        deadline = time.monotonic() + SECONDS
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b'{"event":"join","rank":-1,"protocol":1}\n',
                      b'{"event":"join","rank":0}\n', b"[" * 100000 + b"\n", b"\x00" * 4096):
            while True:
                try:
                    with socket.create_connection((host, int(port)), 1) as stranger:
                        stranger.sendall(noise)
                    break
                except ConnectionRefusedError:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
        self.join("allreduce", "--rank", "0").finish(timeout=SECONDS)
        self.assertIn("# 0 wrong of", server.finish(timeout=SECONDS))


if __name__ == "__main__":
    TALLY_PERF, TALLYD = sys.argv[1:3]
    few = ("Hosts.test_two_workers_that_join",
           "Hosts.test_a_killed_worker_is_named",
           "Hosts.test_a_killed_server_ends_the_joiners")
    unittest.main(argv=[sys.argv[0], *chosen(sys.argv[3:], few)], verbosity=2)
