#!/usr/bin/env python3
"""Trees deeper than stars between real nodes, by plans that an operator sets.

usage: trees_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from nodes import PATIENCE, Cluster

UNIT = 65536  # what the weights of a class sum to
KINDS = ["allreduce", "reduce", "broadcast", "reducescatter", "allgather"]


class Trees(Cluster):
    def plan(self, workers: list, helpers: list, trees: list, small=()) -> str:
        """A file: machines by name, all on one switch. A tree says each one's parent by name, "" of the root; `small` are
        those of operations up to 64 KiB."""
        names = [*workers, *helpers]
        hub = len(names)
        machines = [{"id": i, "role": "worker" if i < len(workers) else "helper", "addr": name, "in": 1e9, "out": 1e9}
                    for i, name in enumerate(names)]
        links = [link for i in range(hub) for link in ([i, hub, 1e9], [hub, i, 1e9])]

        def one_class(most, some: list) -> dict:
            weights = [UNIT // len(some)] * len(some)
            weights[0] += UNIT - sum(weights)
            return {"max_bytes": most, "chunk": 65536, "trees": [
                {"w": weight, "up": [names.index(tree[name]) if tree.get(name) else -1 if name in tree else -2
                                     for name in names]} for weight, tree in zip(weights, some)]}
        path = self.place / "plan.json"
        path.write_text(json.dumps({
            "fmt": "gsplan/1", "epoch": 7, "method": "by hand", "objective": "allreduce",
            "nodes": [*machines, {"id": hub, "role": "switch"}], "links": links,
            "domains": [{"name": "all", "workers": list(range(len(workers))),
                         "classes": [*([one_class(65536, list(small))] if small else []), one_class(None, trees)]}]}))
        return str(path)

    def mixed(self, *names: str) -> list:
        """Other nodes on other hosts, by turns: shared memory within a host, TCP between them."""
        return [(name, "--cluster-host", "there" if i % 2 else "here", "--listen-tcp", f"tcp:127.0.0.1:{self.free_port()}",
                 "--verbs", "off") for i, name in enumerate(names)]

    def run_row(self, kind: str, *arguments: str, ranks: int) -> str:
        """One row, checked where its bits do not depend on the order; its hash."""
        out = self.place / "row.json"
        run = self.perf(self.address("a"), "--iters", "3", "--warmup", "1", "--json", str(out), *arguments, ranks=ranks,
                        kind=kind)
        text, _ = run.communicate(timeout=PATIENCE)
        self.assertEqual(run.returncode, 0, text)
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        return "".join(row["hash"] for row in document["rows"])

    def sweep(self, ranks: int) -> None:
        sizes = ["--min-bytes", "4", "--max-bytes", "2M", "--factor", "9"]
        for kind in KINDS:
            self.run_row(kind, *sizes, "--type", "i32", "--check", ranks=ranks)
        for kind_of in ("f32", "f16", "bf16"):
            self.run_row("allreduce", *sizes, "--type", kind_of, "--op", "max", "--check", "--stats", ranks=ranks)
        again = [self.run_row("allreduce", *sizes, "--type", "f32,f16,bf16", "--shuffle", str(seed), ranks=ranks)
                 for seed in (1, 2)]
        self.assertEqual(again[0], again[1], "the bits do not depend on who comes first")
        self.nothing_left()

    def nothing_left(self) -> None:
        until = time.monotonic() + PATIENCE
        for node in self.nodes:
            while json.loads(self.ctl("--json", "jobs", node=node)):
                self.assertLess(time.monotonic(), until, f"{node} still has a job")
                time.sleep(0.05)

    RACKS = {"w0": "a", "w1": "a", "w2": "b", "w3": "b", "a": "c", "b": "c", "c": ""}

    def racks(self) -> str:
        return self.plan(["w0", "w1", "w2", "w3"], ["a", "b", "c"], [self.RACKS])

    def test_two_levels_below_a_helper(self):
        self.cluster(*self.mixed("b", "c"))
        self.ctl("plan", "set", self.racks())
        self.sweep(4)


if __name__ == "__main__":
    Cluster.TALLYD, Cluster.TALLYCTL, Cluster.TALLY_PERF = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
