#!/usr/bin/env python3
"""tally-perf across hosts, on machines of a simulated network: one serves, two join.

usage: perf_test.py TALLY_PERF TALLYD
"""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "support")]
from network import SKIPPED, Network, available  # noqa: E402
from processes import Process, end_all  # noqa: E402

TALLY_PERF = TALLYD = ""
PORT = 7800


class AcrossHosts(unittest.TestCase):
    def setUp(self):
        self.network = Network(3)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__, None, None, None)
        self.addCleanup(end_all)
        directory = tempfile.TemporaryDirectory(prefix="tally-net-")
        self.addCleanup(directory.cleanup)
        self.json = Path(directory.name, "rows.json")

    def start(self, index: int, *arguments: str) -> Process:
        return Process([TALLY_PERF, "allreduce", *arguments], popen=self.network.machine(index).popen,
                       environment={**os.environ, "TALLY_TOKEN": "secret:a text for this test"})

    def hosts(self, where: str, *arguments: str) -> list[Process]:
        """One that serves at machine 1, and ranks 0 and 1 at machines 2 and 3."""
        address = self.network.machine(1).address
        return [self.start(1, "--serve", f"{where or address}:{PORT}", "--ranks", "2", "--tallyd", TALLYD,
                           *arguments),
                *(self.start(2 + rank, "--join", f"{address}:{PORT}", "--rank", str(rank))
                  for rank in (0, 1))]

    def test_sums_are_right(self):
        for where in ("*", ""):
            server, *joiners = self.hosts(where, "--max-bytes", "1M", "--factor", "16", "--iters", "5",
                                          "--check", "--ceiling", "--json", str(self.json))
            for joiner in joiners:
                joiner.finish()
            self.assertIn("ceiling: plain sockets", server.finish())
            document = json.loads(self.json.read_text())
            self.assertEqual((document["wrong"], document["transport"]), (0, "fabric"))
            self.assertGreater(document["checked"], 0)

    def test_a_host_that_vanishes_is_named(self):
        server, survivor, vanished = self.hosts("", "--min-bytes", "64K", "--max-bytes", "64K",
                                                "--iters", "100000000")
        server.skip_to("^# allreduce")
        self.network.machine(3).unplug()
        self.assertRegex(server.finish(3), "rank 1 at 10.77.0.3 (ended|says nothing)")
        self.assertIn("rank 1 is to blame", survivor.finish(3))
        vanished.finish(3)


if __name__ == "__main__":
    if reason := available():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    TALLY_PERF, TALLYD = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
