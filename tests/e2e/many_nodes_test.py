#!/usr/bin/env python3
"""Several tallyd as one service: a job's operations go over all of them, with the same bits as over one.

usage: many_nodes_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TALLYD = TALLYCTL = TALLY_PERF = ""
PATIENCE = 60
SIZES = ["--min-bytes", "4", "--max-bytes", "4M", "--factor", "7", "--iters", "3", "--warmup", "1", "--check"]


class ManyNodes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tally-nodes-")
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)
        self.nodes = {}

    def address(self, name: str) -> str:
        return f"unix:{self.place}/{name}.sock"

    def start(self, name: str, *more: str, shards: int = 2) -> None:
        node = subprocess.Popen([TALLYD, "--listen", self.address(name), "--shards", str(shards), "--log-level", "error",
                                 "--ready-fd", "1", *more], text=True, stdout=subprocess.PIPE)
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.wait)
        self.addCleanup(node.kill)
        self.assertEqual(node.stdout.readline(), "ready\n")
        self.nodes[name] = node

    def cluster(self, *others: tuple) -> None:
        """The coordinator "a" and others, with more flags of theirs; this host is "here"."""
        for name, *more in (("a",), *others):
            host = [] if "--cluster-host" in more else ["--cluster-host", "here"]
            self.start(name, "--cluster", self.address("a"), "--cluster-name", name, *host, *more)
        self.wait_for(1 + len(others))

    def wait_for(self, members: int) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            done = subprocess.run([TALLYCTL, "--address", self.address("a"), "--json", "nodes"], text=True,
                                  capture_output=True, timeout=PATIENCE, check=True)
            if len(json.loads(done.stdout)) == members:
                return
            time.sleep(0.05)
        self.fail(f"not {members} members: {done.stdout}")

    def perf(self, address: str, *arguments: str) -> subprocess.Popen:
        run = subprocess.Popen([TALLY_PERF, "allreduce", "--spawn", "3", "--address", address, *arguments], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**os.environ, "TALLY_HOST": "here"})
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def rows(self, address: str) -> list:
        out = self.place / "rows.json"
        run = self.perf(address, *SIZES, "--json", str(out))
        text, _ = run.communicate(timeout=PATIENCE)
        self.assertEqual(run.returncode, 0, text)
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0)
        return [(row["bytes"], row["hash"]) for row in document["rows"]]

    def test_the_bits_are_those_of_one_node(self):
        self.start("alone")
        self.cluster(("b",), ("c", "--cluster-speed", "1MiB"))
        self.assertEqual(self.rows(self.address("a")), self.rows(self.address("alone")))
        self.assertEqual(len(self.served()), 3, "all of them have a part of it")
        nowhere = f"unix:{self.place}/nowhere.sock"
        for first in (nowhere, self.address("b")):  # the coordinator is further down the list
            self.assertTrue(self.rows(f"{first},{self.address('a')}"))

    def test_a_member_says_who_coordinates(self):
        self.cluster(("b",))
        text, _ = self.perf(self.address("b"), *SIZES).communicate(timeout=PATIENCE)
        self.assertIn(f"ask its coordinator, {self.address('a')}", text)

    def served(self) -> list:
        """The nodes that have moved bytes."""
        served = []
        for name, node in self.nodes.items():
            if name == "alone":
                continue
            done = subprocess.run([TALLYCTL, "--address", self.address(name), "--json", "stats"], text=True,
                                  capture_output=True, timeout=PATIENCE, check=True)
            if sum(shard["bytes_in"] for shard in json.loads(done.stdout)["shards"]) > 0:
                served.append(name)
        return served

    def test_nodes_of_another_host_are_reached_over_the_network(self):
        port = self.free_port()
        self.cluster(("b", "--cluster-host", "there", "--listen-tcp", f"tcp:127.0.0.1:{port}", "--verbs", "off"))
        self.assertTrue(self.rows(self.address("a")))
        self.assertEqual(len(self.served()), 2)

    def test_what_the_plan_promises_stands_beside_what_was_measured(self):
        self.cluster(("b", "--cluster-host", "there", "--listen-tcp", f"tcp:127.0.0.1:{self.free_port()}", "--verbs",
                      "off", "--cluster-speed", "1GiB"))
        out = self.place / "rows.json"
        arguments = ["--min-bytes", "64K", "--max-bytes", "1M", "--factor", "16", "--iters", "3", "--json", str(out)]
        text, _ = self.perf(self.address("a"), *arguments).communicate(timeout=PATIENCE)
        document = json.loads(out.read_text())
        self.assertIn("the speed of the NIC of here is not known", document["plan"]["why_none"], text)
        self.assertEqual(document["plan"]["nodes"], 2)
        self.assertNotIn("predicted_us", document["rows"][1])
        network = self.place / "m.json"
        network.write_text(json.dumps({"fmt": "tally-machines/1", "machines": [
            {"name": "here", "role": "worker", "nic": 1e9}, {"name": "b", "role": "helper", "nic": 2e9}]}))
        text, _ = self.perf(self.address("a"), *arguments, "--network", str(network)).communicate(timeout=PATIENCE)
        document = json.loads(out.read_text())
        self.assertEqual(document["plan"]["why_none"], "", text)
        links = {link["what"]: link for link in document["plan"]["links"]}
        # Two helpers that say nothing else have half each; three ranks send b's half over one NIC.
        self.assertAlmostEqual(links["out of here"]["bytes"], 1.5, places=3)
        self.assertAlmostEqual(links["out of here"]["busy"], 1, places=3)
        self.assertAlmostEqual(links["into there"]["busy"], 0.5, places=3)
        small, large = document["rows"]
        self.assertNotIn("predicted_us", small, "it goes whole to one tree")
        self.assertAlmostEqual(large["predicted_us"], 1.5 * large["bytes"] / 1e9 * 1e6, delta=600)
        self.assertAlmostEqual(large["predicted_ratio"], large["time_us_p50"] / large["predicted_us"])
        self.assertIn("# plan: epoch", text)
        network.write_text("{}")
        run = self.perf(self.address("a"), *arguments, "--network", str(network))
        text, _ = run.communicate(timeout=PATIENCE)
        self.assertIn(f"--network {network}: fmt", text)

    @staticmethod
    def free_port() -> int:
        import socket
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def test_a_node_that_is_killed_is_named_and_the_others_serve_on(self):
        self.cluster(("b",), ("c",))
        run = self.perf(self.address("a"), "--min-bytes", "1M", "--max-bytes", "1M", "--iters", "100000000")
        while not (line := run.stdout.readline()).startswith("# allreduce"):
            self.assertNotEqual(line, "", "the run did not begin")
        time.sleep(0.3)
        self.nodes["c"].kill()
        text, _ = run.communicate(timeout=PATIENCE)
        self.assertEqual(run.returncode, 3, text)
        self.assertIn("c.sock", text)
        self.wait_for(2)
        self.assertTrue(self.rows(self.address("a")))
        self.start("c", "--cluster", self.address("a"), "--cluster-name", "c", "--cluster-host", "here")
        self.wait_for(3)
        self.assertTrue(self.rows(self.address("a")))
        self.assertEqual(self.served(), ["a", "b", "c"])


if __name__ == "__main__":
    TALLYD, TALLYCTL, TALLY_PERF = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
