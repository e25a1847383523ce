#!/usr/bin/env python3
"""A tree of two nodes: "b" has an Ethernet port that DPDK drives, and its parent "a" has an RDMA device. The ranks share
memory with "b". Runs in the guest (roce_test.py starts it there), with the node's cable of node_port.sh.

usage: roce_parent.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from nodes import Cluster, Process, Tallyd, run_tests  # noqa: E402

PORTS = {"a": 7733, "b": 7734}
NETWORKS = {"a": 'device = "rxe1"\nfabric = "off"',
            "b": 'roce = "net_af_packet0,iface=n0"\nroce_address = "10.9.0.100/24"'}
SWEEP = ["--min-bytes", "4", "--max-bytes", "2M", "--factor", "9", "--iters", "3", "--warmup", "1"]


class Parent(Cluster):
    def start_node(self, name: str) -> None:
        file = self.place / f"{name}.toml"
        file.write_text(f"[network]\n{NETWORKS[name]}\n")
        self.nodes[name] = Tallyd(self.TALLYD, "--config", file, "--shards", 2, "--listen-tcp",
                                  f"tcp:127.0.0.1:{PORTS[name]}", "--cluster", f"tcp:127.0.0.1:{PORTS['a']}",
                                  "--cluster-name", name, "--cluster-host", name, folder=self.place, name=name)

    def checked(self, kind: str) -> None:
        out = self.place / "row.json"
        text = Process([self.TALLY_PERF, kind, "--spawn", 2, "--address", self.address("b"), *SWEEP, "--check", "--type",
                        "i32", "--json", str(out)], environment={"TALLY_HOST": "b"}).finish()
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0)

    def test_a_parent_with_an_rdma_device(self):
        for name in PORTS:
            self.start_node(name)
        self.wait_for(len(PORTS))
        self.ctl("plan", "set", self.tree_plan(["w0", "w1"], list(PORTS), [{"w0": "b", "w1": "b", "b": "a", "a": ""}]))
        for kind in ("allreduce", "reduce", "broadcast", "allgather"):
            self.checked(kind)
        self.assertIn("by the port of network.roce", self.nodes["b"].output())
        counted = [shard["roce"] for shard in self.stats("b")["shards"]]
        self.assertGreater(sum(one["received"] for one in counted), 1000)
        self.assertEqual([one["wrong_icrc"] + one["no_buffer"] for one in counted], [0, 0])


if __name__ == "__main__":
    run_tests()
