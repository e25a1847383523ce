"""Several tallyd as one service, and what asks of them, for tests."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402
from processes import TIMEOUT, Process, Tallyd, end_all  # noqa: E402
from tier import chosen  # noqa: E402

UNIT = 65536  # what the weights of a class sum to
DEVICE = os.environ.get("TALLY_TEST_DEVICE")  # RDMA between hosts instead of TCP: for guests of tests/vm
ENDLESS = ["--min-bytes", "1M", "--max-bytes", "1M", "--iters", "100000000"]
SIZES = ["--min-bytes", "4", "--max-bytes", "4M", "--factor", "7", "--iters", "3", "--warmup", "1", "--check"]


def run_tests(few: tuple = ()) -> None:
    """The tests of the script, which is given TALLYD TALLYCTL TALLY_PERF and the names of tests that it is to run."""
    Cluster.TALLYD, Cluster.TALLYCTL, Cluster.TALLY_PERF = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *chosen(sys.argv[4:], few)], verbosity=2)


class Cluster(unittest.TestCase):
    TALLYD = TALLYCTL = TALLY_PERF = ""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tally-nodes-")
        self.addCleanup(directory.cleanup)
        self.addCleanup(end_all)
        self.place = Path(directory.name)
        self.nodes = {}
        self.log_level = "error"  # of nodes that start

    def address(self, name: str) -> str:
        return f"unix:{self.place}/{name}.sock"

    def start(self, name: str, *more: str, shards: int = 2) -> None:
        self.nodes[name] = Tallyd(self.TALLYD, "--shards", shards, "--log-level", self.log_level, *more, folder=self.place,
                                  name=name)

    def cluster(self, *others: tuple, shards: int = 2, coordinator: tuple = ()) -> None:
        """The coordinator "a" and others, with more flags of theirs; this host is "here"."""
        for name, *more in (("a", *coordinator), *others):
            host = [] if "--cluster-host" in more else ["--cluster-host", "here"]
            self.start(name, "--cluster", self.address("a"), "--cluster-name", name, *host, *more, shards=shards)
        self.wait_for(1 + len(others))

    def wait_for(self, members: int) -> None:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            output = self.ctl("--json", "nodes")
            if len(json.loads(output)) == members:
                return
            time.sleep(0.05)
        self.fail(f"not {members} members: {output}")

    def perf(self, address: str, *arguments: str, ranks: int = 3, kind: str = "allreduce") -> Process:
        return Process([self.TALLY_PERF, kind, "--spawn", ranks, "--address", address, *arguments],
                       environment={"TALLY_HOST": "here"})

    def rows(self, address: str, ranks: int = 3) -> list:
        out = self.place / "rows.json"
        text = self.perf(address, *SIZES, "--json", str(out), ranks=ranks).finish()
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0)
        return [(row["bytes"], row["hash"]) for row in document["rows"]]

    def served(self) -> list:
        """The nodes that have moved bytes."""
        served = []
        for name, node in self.nodes.items():
            if name == "alone":
                continue
            if sum(shard["bytes_in"] for shard in self.stats(name)["shards"]) > 0:
                served.append(name)
        return served

    def nothing_left(self) -> None:
        until = time.monotonic() + TIMEOUT
        for node in self.nodes:
            while json.loads(self.ctl("--json", "jobs", node=node)):
                self.assertLess(time.monotonic(), until, f"{node} still has a job")
                time.sleep(0.05)

    def endless(self, ranks: int = 3) -> Process:
        """A run that has begun and ends by what befalls it."""
        return self.begun(self.perf(self.address("a"), *ENDLESS, ranks=ranks))

    @staticmethod
    def begun(run: Process) -> Process:
        run.skip_to("^# allreduce")
        time.sleep(0.3)
        return run

    def until_repaired(self, run: Process, times: int = 1) -> None:
        """Waits until the run has been repaired so often. Each of its ranks may report it."""
        until = time.monotonic() + TIMEOUT
        while len(set(re.findall(r"is repaired .* goes on in epoch (\d+)", run.output()))) < times:
            self.assertIsNone(run.poll(), run.output())
            self.assertLess(time.monotonic(), until, run.output())
            time.sleep(0.05)

    def tallyctl(self, *words: str, node: str = "a", stdout=subprocess.PIPE) -> subprocess.CompletedProcess:
        return subprocess.run([self.TALLYCTL, "--address", self.address(node), *words], text=True, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)

    def ctl(self, *words: str, status: int = 0, node: str = "a") -> str:
        done = self.tallyctl(*words, node=node)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def pulled(self) -> dict:
        """By node: bytes of input."""
        pulled = {}
        for name in self.nodes:
            pulled[name] = self.stats(name)["totals"]["bytes_in"]
        return pulled

    def stats(self, node: str) -> dict:
        return json.loads(self.ctl("--json", "stats", node=node))

    def run_perf(self, *arguments: str) -> None:
        self.perf(self.address("a"), *arguments).finish()

    def plan(self, helpers: dict, small=None, tensors=()) -> str:
        """A plan's file: one worker, which stands for all ranks, stars at the helpers with these weights; operations
        of up to 64 KiB go to `small` alone."""
        names = list(helpers)
        machines = [{"id": 0, "role": "worker", "addr": "ranks", "in": 1e9, "out": 1e9}]
        machines += [{"id": i, "role": "helper", "addr": name, "in": 1e9, "out": 1e9} for i, name in enumerate(names, 1)]
        hub = len(machines)
        links = [link for i in range(hub) for link in ([i, hub, 1e9], [hub, i, 1e9])]

        def star(name: str, weight: int) -> dict:
            root = names.index(name) + 1
            return {"w": weight, "up": [root, *(-1 if i == root else -2 for i in range(1, hub))]}
        classes = [{"max_bytes": None, "chunk": 65536, "trees": [star(*one) for one in helpers.items()]}]
        if small:
            classes.insert(0, {"max_bytes": 65536, "chunk": 65536, "trees": [star(small, 65536)]})
        path = self.place / "plan.json"
        path.write_text(json.dumps({
            "fmt": "gsplan/1", "epoch": 41, "method": "by hand", "objective": "allreduce",
            "nodes": [*machines, {"id": hub, "role": "switch"}], "links": links,
            "domains": [{"name": "all", "workers": [0], "classes": classes, "tensors": list(tensors)}]}))
        return str(path)

    def tree_plan(self, workers: list, helpers: list, trees: list, small=(), window: int = 0, chunk: int = 65536) -> str:
        """A file: machines by name, all on one switch. A tree says each one's parent by name, "" of the root; a pair of them
        has another way for the results. `small` are those of operations up to 64 KiB. Without a window nodes choose it."""
        names = [*workers, *helpers]
        hub = len(names)
        machines = [{"id": i, "role": "worker" if i < len(workers) else "helper", "addr": name, "in": 1e9, "out": 1e9}
                    for i, name in enumerate(names)]
        links = [link for i in range(hub) for link in ([i, hub, 1e9], [hub, i, 1e9])]

        def parents(way: dict) -> list:
            return [names.index(way[name]) if way.get(name) else -1 if name in way else -2 for name in names]

        def ways(tree) -> dict:
            return {"up": parents(tree[0]), "down": parents(tree[1])} if isinstance(tree, tuple) else {"up": parents(tree)}

        def one_class(most, some: list) -> dict:
            weights = [UNIT // len(some)] * len(some)
            weights[0] += UNIT - sum(weights)
            return {"max_bytes": most, "chunk": chunk, **({"window": window} if window else {}), "trees": [
                {"w": weight, **ways(tree)} for weight, tree in zip(weights, some)]}
        path = self.place / "plan.json"
        path.write_text(json.dumps({
            "fmt": "gsplan/1", "epoch": 7, "method": "by hand", "objective": "allreduce",
            "nodes": [*machines, {"id": hub, "role": "switch"}], "links": links,
            "domains": [{"name": "all", "workers": list(range(len(workers))),
                         "classes": [*([one_class(65536, list(small))] if small else []), one_class(None, trees)]}]}))
        return str(path)

    def mixed(self, *names: str) -> list:
        """Other nodes on other hosts, by turns: shared memory within a host, TCP or RDMA between them."""
        network = ["--verbs", "off"]
        if DEVICE:
            config = self.place / "network.toml"
            config.write_text("[network]\nack_timeout = 16\n")
            network = ["--verbs", "on", "--device", DEVICE, "--fabric", "off", "--config", str(config)]
        return [(name, "--cluster-host", "there" if i % 2 else "here", "--listen-tcp", f"tcp:127.0.0.1:{free_port()}",
                 *network) for i, name in enumerate(names)]
