#!/usr/bin/env python3
"""What a rank costs a node and what a node costs a rank stays what it was: memory, descriptors, threads, wake-ups of
those that have nothing to do. perf/limits/scale.py measures; a bar is about twice the figure of a good build.

usage: scale_test.py BUILD
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "perf/limits"))
import scale  # noqa: E402


class Scale(unittest.TestCase):
    build = ""

    def measure(self, *arguments: str) -> dict:
        """Idle for six seconds: in three all nodes may happen to renew their question to the coordinator twice."""
        result = scale.measure(scale.parse(["--build", self.build, "--seconds", "6", "--processes", "2", *arguments]))
        print("\n".join(scale.lines(result)))
        return result

    def idle_is_still(self, result: dict) -> None:
        """Each thread that sleeps looks around once in ten seconds or less."""
        for name in ("node", "coordinator", "rank"):
            self.assertLess(result[f"{name}_idle_wakes_per_s"], 10, name)
            self.assertLess(result[f"{name}_idle_share"], 0.02, name)

    def test_64_ranks_at_8_nodes_over_shared_memory(self):
        result = self.measure("--transport", "shm", "--ranks", "64", "--nodes", "8")
        self.assertLess(result["node_bytes_per_rank"], 256 << 10)
        self.assertLess(result["rank_bytes_per_node"], 192 << 10)
        self.assertLess(result["coordinator_bytes_per_rank"], 64 << 10)
        self.assertLess(result["node_descriptors_per_rank"], 4)
        self.assertLess(result["rank_descriptors_per_node"], 8)
        self.assertLess(result["rank_threads"], 0.5)
        self.idle_is_still(result)

    def test_8_ranks_at_8_nodes_over_fabric(self):
        result = self.measure("--transport", "fabric", "--ranks", "8", "--nodes", "8")
        self.assertLess(result["rank_threads"], 4.5, "however many nodes there are")
        self.assertLess(result["rank_bytes_per_node"], 2 << 20)
        self.assertLess(result["rank_descriptors_per_node"], 24)
        self.idle_is_still(result)

    def test_128_ranks_come_from_one_address(self):
        """Each has a connection to the coordinator for as long as it lives, besides that of its session."""
        result = self.measure("--transport", "fabric", "--ranks", "128", "--nodes", "1")
        self.assertLess(result["node_bytes_per_rank"], 512 << 10)
        self.idle_is_still(result)


if __name__ == "__main__":
    Scale.build = sys.argv.pop(1)
    unittest.main(verbosity=2)
