#!/usr/bin/env python3
"""Trees of nodes without RDMA devices. DPDK drives the second Ethernet port of each machine, and the nodes connect to
each other over it by transport roce.

usage: roce_trees_test.py TALLYD TALLYCTL TALLY_PERF [CASE...]
$TALLYD_NICS: the program with further drivers, if it was built
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "e2e")]
from network import SKIPPED, Network, available  # noqa: E402
from nodes import ENDLESS, TIMEOUT, Cluster, Process, Tallyd, run_tests  # noqa: E402

PORT = 7733
RAIL = 1  # the kernel has another address there and does not answer for the node's
SWEEP = ["--min-bytes", "4", "--max-bytes", "2M", "--factor", "9"]
LARGE = ["--min-bytes", "2M", "--max-bytes", "2M"]


class RoceTrees(Cluster):
    """Node "a" is on machine 1 and coordinates, "b" on 2, "c" on 3. Both ranks are on 3 and share memory with "c"."""

    DRIVER, SHARDS = "net_af_packet0", 2

    CHAIN = {"w0": "c", "w1": "c", "c": "b", "b": "a", "a": ""}

    def setUp(self):
        super().setUp()
        self.network = Network(3, rails=2)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__, None, None, None)

    def machine(self, name: str):
        return self.network.machine(1 + "abc".index(name))

    def start_on_port(self, name: str) -> None:
        machine = self.machine(name)
        file = self.place / f"{name}.toml"
        file.write_text(f'[network]\nroce = "{self.DRIVER},iface=eth{RAIL}"\n'
                        f'roce_address = "10.9.0.{machine.index}/24"\nack_timeout = 12\n')
        coordinator = f"tcp:{self.machine('a').address}:{PORT}"
        self.nodes[name] = Tallyd(self.TALLYD, "--config", file, "--shards", self.SHARDS, "--listen-tcp",
                                  f"tcp:{machine.address}:{PORT}", "--cluster", coordinator, "--cluster-name", name,
                                  "--cluster-host", name, folder=self.place, name=name, popen=machine.popen)

    def chain(self) -> None:
        for name in "abc":
            self.start_on_port(name)
        self.wait_for(3)
        self.ctl("plan", "set", self.tree_plan(["w0", "w1"], ["a", "b", "c"], [self.CHAIN]))

    def on_c(self, *arguments: str, kind: str = "allreduce") -> Process:
        return Process([self.TALLY_PERF, kind, "--spawn", 2, "--address", self.address("c"), *arguments],
                       environment={"TALLY_HOST": "c"}, popen=self.machine("c").popen)

    def checked(self, *arguments: str, kind: str = "allreduce", kind_of: str = "i32") -> None:
        out = self.place / "row.json"
        text = self.on_c("--iters", "3", "--warmup", "1", "--check", "--type", kind_of, "--json", str(out), *arguments,
                         kind=kind).finish()
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0)

    def packets(self, name: str) -> dict:
        counted = [shard["roce"] for shard in self.stats(name)["shards"]]
        return {key: sum(one[key] for one in counted) for key in ("received", "sent", "strangers", "wrong_icrc")}

    def test_a_chain_of_nodes(self):
        self.chain()
        for kind in ("reduce", "broadcast", "allgather"):
            self.checked(*SWEEP, kind=kind)
        self.checked(*SWEEP, "--gradients", "integers", kind_of="f32,bf16")
        for name in "bc":
            self.assertIn("by the port of network.roce", self.nodes[name].output())
        before = {name: self.packets(name) for name in "abc"}
        self.assertTrue(all(before[name]["wrong_icrc"] == 0 for name in "abc"), before)
        self.checked(*LARGE)
        # 2 MiB in packets of 1024 bytes, in three iterations and one of warm-up, each way.
        for name, ways in (("a", 1), ("b", 2), ("c", 1)):
            self.assertGreater(self.packets(name)["received"] - before[name]["received"], ways * 4 * 2048)

    def test_a_chain_by_af_xdp(self):
        """The interfaces of the test have one queue."""
        self.TALLYD, self.DRIVER, self.SHARDS = os.environ.get("TALLYD_NICS"), "net_af_xdp0", 1
        if not self.TALLYD:
            self.skipTest("tallyd-nics was not built: it needs libxdp, libbpf and libmlx5")
        self.chain()
        self.checked(*SWEEP)
        for name in "bc":
            self.assertIn("driver=net_af_xdp", self.nodes[name].output())
            self.assertIn("by the port of network.roce", self.nodes[name].output())
            self.nodes[name].kill()
        self.wait_for(1)
        for name in "bc":
            self.start_on_port(name)  # what a killed node leaves at its interface does not matter
        self.wait_for(3)
        self.checked(*LARGE)

    def test_af_xdp_needs_a_queue_for_each_shard(self):
        self.TALLYD, self.DRIVER, self.SHARDS = os.environ.get("TALLYD_NICS"), "net_af_xdp0", 2
        if not self.TALLYD:
            self.skipTest("tallyd-nics was not built: it needs libxdp, libbpf and libmlx5")
        with self.assertRaisesRegex(Exception, "has 1 queues, and 2 are needed.*ethtool -L eth1 combined 2"):
            self.start_on_port("a")

    def test_without_packets_the_nodes_use_another_transport(self):
        self.machine("b").unplug(RAIL)
        self.chain()
        self.checked(*SWEEP)
        self.assertRegex(self.nodes["c"].output(), "not roce: no packets get from network.roce's port")

    def test_a_cable_that_is_pulled_is_repaired(self):
        """The nodes use another transport, or the same one when the cable is back."""
        self.chain()
        run = self.begun(self.on_c(*ENDLESS))
        self.machine("b").unplug(RAIL)
        self.until_repaired(run)
        self.machine("b").plug(RAIL)
        self.goes_on(run)
        run.end()
        self.nothing_left()
        self.checked(*SWEEP)

    def test_a_parent_that_is_killed_and_comes_back(self):
        """No other node can stand in for it meanwhile."""
        self.chain()
        run = self.begun(self.on_c(*ENDLESS))
        self.nodes["b"].kill()
        self.wait_for(2)
        self.start_on_port("b")
        self.wait_for(3)
        self.until_repaired(run)
        self.assertRegex(run.output(), 'node "b" of the job died')
        self.goes_on(run)
        run.end()
        self.nothing_left()
        self.checked(*SWEEP)

    def goes_on(self, run) -> None:
        """Operations end: node c moves more bytes."""
        before = self.stats("c")["totals"]["bytes_in"]
        until = time.monotonic() + TIMEOUT
        while self.stats("c")["totals"]["bytes_in"] <= before:
            self.assertIsNone(run.poll(), run.output())
            self.assertLess(time.monotonic(), until, run.output())
            time.sleep(0.1)



if __name__ == "__main__":
    if why := available():
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    run_tests()
