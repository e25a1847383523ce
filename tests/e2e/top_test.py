#!/usr/bin/env python3
"""tallyctl top over real nodes: into a pipe, as JSON, and in a terminal, which is as before afterwards.

usage: top_test.py TALLYD TALLYCTL TALLY_PERF
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from nodes import TIMEOUT, Cluster, Process, run_tests

COLUMNS, LINES = 100, 30
ENTERED, LEFT = "\033[?1049h", "\033[?25h\033[?1049l"


class Top(Cluster):
    def view(self) -> dict:
        return json.loads(self.ctl("--json", "top", "--once", "--interval", "0.2"))

    def wait_until(self, ready) -> dict:
        until = time.monotonic() + TIMEOUT
        while not ready(view := self.view()):
            self.assertLess(time.monotonic(), until, view)
        return view

    def work(self) -> Process:
        return self.perf(self.address("a"), "--job", "bert", "--min-bytes", "1M", "--max-bytes", "1M", "--iters",
                         "100000000", "--quiet", ranks=2)

    def test_a_job_over_two_nodes_has_its_goodput(self):
        self.cluster(("b",), shards=1)
        self.work()
        view = self.wait_until(lambda view: any(job.get("goodput_per_s", 0) > 0 for job in view["jobs"]))
        job = view["jobs"][0]
        self.assertEqual((job["job"], job["ranks"], job["nodes"], job["nodes_seen"]), ("bert", 2, 2, 2))
        self.assertAlmostEqual(job["goodput_per_s"], job["in_per_s"] / 2)
        view = self.wait_until(lambda view: all(node.get("in_per_s", 0) > 0 for node in view["nodes"]))
        self.assertEqual([node["state"] for node in view["nodes"]], ["member", "member"])
        self.assertEqual({shard["node"] for shard in view["shards"]}, {"a", "b"})

    def test_a_rank_that_stands_still_is_named(self):
        self.cluster(shards=1)
        perf = self.work()
        self.wait_until(lambda view: any(job.get("goodput_per_s", 0) > 0 for job in view["jobs"]))
        rank = perf.children()[0]
        os.kill(rank, signal.SIGSTOP)
        try:
            view = self.wait_until(lambda view: view["waiting"] and view["stragglers"])
            self.assertEqual(len(view["waiting"][0]["missing"]), 1)
            self.assertEqual(view["waiting"][0]["missing"][0], view["stragglers"][0]["rank"])
            self.assertGreaterEqual(view["stragglers"][0]["waited_for"], 1)
        finally:
            os.kill(rank, signal.SIGCONT)

    def test_nobody_there_is_an_error(self):
        self.assertIn("nobody listens at", self.ctl("top", "--once", status=1, node="nobody"))

    def terminal(self, interval: str = "0.2") -> tuple[subprocess.Popen, int]:
        """top in a terminal of its own, and that terminal."""
        mine, theirs = pty.openpty()
        self.addCleanup(os.close, mine)
        self.resize(theirs, COLUMNS, LINES)
        self.before = termios.tcgetattr(theirs)
        process = subprocess.Popen([self.TALLYCTL, "--address", self.address("a"), "top", "--interval", interval],
                                   stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0))
        self.addCleanup(os.close, theirs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.theirs = theirs
        return process, mine

    @staticmethod
    def resize(terminal: int, columns: int, lines: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, terminal: int, wanted: str) -> str:
        text, until = "", time.monotonic() + TIMEOUT
        while wanted not in text:
            self.assertLess(time.monotonic(), until, f"no {wanted!r} in ...{text[-1500:]!r}")
            if select.select([terminal], [], [], 1)[0]:
                text += os.read(terminal, 1 << 16).decode()
        return text

    def assert_restored(self, process: subprocess.Popen, terminal: int, status: int) -> None:
        self.read_until(terminal, LEFT)
        self.assertEqual(process.wait(TIMEOUT), status)
        self.assertEqual(termios.tcgetattr(self.theirs), self.before)

    def test_the_terminal_is_as_before(self):
        self.cluster(("b",), shards=1)
        for end, status in ((lambda process, terminal: os.write(terminal, b"xq"), 0),
                            (lambda process, terminal: os.write(terminal, b"\x03"), 0),
                            (lambda process, terminal: process.terminate(), 128 + signal.SIGTERM)):
            process, terminal = self.terminal()
            self.assertIn(ENTERED, self.read_until(terminal, "rates over"))
            self.assertNotEqual(termios.tcgetattr(self.theirs), self.before)
            end(process, terminal)
            self.assert_restored(process, terminal, status)

    def test_it_fits_the_window(self):
        self.cluster(("b",), shards=1)
        process, terminal = self.terminal("3600")
        frames = self.read_until(terminal, "\033[J")
        self.resize(terminal, 20, 5)
        frames = self.read_until(terminal, "\033[J")
        lines = frames[frames.rindex("\033[H") + 3:frames.rindex("\033[J")].split("\n")
        self.assertEqual(len(lines), 5, frames)
        self.assertLessEqual(max(len(re.sub("\033.K|\r", "", line)) for line in lines), 20, frames)
        os.write(terminal, b"q")
        self.assert_restored(process, terminal, 0)

    def test_the_view_goes_on_without_a_node(self):
        self.cluster(("b",), ("c",), shards=1)
        process, terminal = self.terminal()
        self.read_until(terminal, "3 nodes")
        self.nodes["b"].pause()
        self.read_until(terminal, "no answer")
        self.nodes["c"].kill()
        self.read_until(terminal, "c: nobody listens at")
        self.read_until(terminal, "left")
        self.nodes["b"].resume()
        self.read_until(terminal, "1 node not as it should be")
        self.nodes["a"].kill()  # the coordinator
        self.read_until(terminal, "no coordinator answers")
        os.write(terminal, b"q")
        self.assert_restored(process, terminal, 0)


if __name__ == "__main__":
    run_tests(("Top.test_a_job_over_two_nodes_has_its_goodput",
               "Top.test_the_view_goes_on_without_a_node"))
