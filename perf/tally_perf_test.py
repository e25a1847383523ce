#!/usr/bin/env python3
"""Runs tally-perf as people do: sweeps, models, ranks of their own, and everything that can end it.

usage: tally_perf_test.py TALLY_PERF TALLYD [unittest arguments]
"""

import json
import math
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
from processes import Process, Tallyd, end_all  # noqa: E402
from tier import chosen  # noqa: E402

TALLY_PERF = TALLYD = ""
SECONDS = 120  # no run here takes as long, on a slow machine under sanitizers either
FOR_EVER = ["allreduce", "--spawn", "3", "--min-bytes", "64K", "--max-bytes", "64K",
            "--iters", "100000000"]


def children(pid: int) -> dict[str, list[int]]:
    """Live children by name."""
    found: dict[str, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(") ", 1)
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if int(parent) == pid and state != "Z":
            found.setdefault(name, []).append(int(stat.parent.name))
    return found


class TallyPerf(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tp-")
        self.addCleanup(directory.cleanup)
        self.scratch = Path(directory.name)
        self.tmp = self.scratch / "tmp"
        self.tmp.mkdir()
        self.addCleanup(end_all)
        os.environ.pop("TALLY_ADDRESS", None)

    def command(self, arguments: list[str]) -> list[str]:
        own_node = "--spawn" in arguments and "--address" not in arguments
        return [TALLY_PERF, *arguments, *(["--tallyd", TALLYD] if own_node else [])]

    def launch(self, *arguments: str, **environment: str) -> Process:
        return Process(self.command(list(arguments)), environment={"TMPDIR": str(self.tmp), **environment})

    def run_it(self, *arguments: str, status: int = 0) -> str:
        output = self.launch(*arguments).finish(status, SECONDS)
        self.assertEqual(list(self.tmp.iterdir()), [])
        return output

    def rows(self, *arguments: str) -> list[dict]:
        file = self.scratch / "rows.json"
        self.run_it(*arguments, "--json", str(file))
        document = json.loads(file.read_text())
        self.assertTrue(document["good"])
        return document["rows"]

    def start(self, *arguments: str) -> Process:
        """A run that has its node and workers, and is under way."""
        run = self.launch(*arguments)
        deadline = time.monotonic() + SECONDS
        while len(children(run.pid).get("tally-perf", [])) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        line = run.line(SECONDS)  # the workers have sessions
        self.assertIn("3 workers" if line.startswith("#") else "transport", line)
        time.sleep(0.2)
        return run

    def end(self, run: Process, family: dict[str, list[int]], status: int) -> str:
        output = run.finish(status, SECONDS)
        self.assertEqual(list(self.tmp.iterdir()), [], "left behind")
        for pid in sum(family.values(), []):
            self.assertFalse(Path(f"/proc/{pid}").exists(), f"process {pid} was left behind")
        return output

    def test_every_collective_type_and_operation(self):
        # Sanitizers make each row slow; two types meet every path but the kernels, which have tests,
        # and same_bits.py has the many parts and tiles.
        quick = bool(os.environ.get("TALLY_SANITIZER"))
        types = "f32,i8" if quick else "all"
        sizes = ["--min-bytes", "24", "--max-bytes", "5K" if quick else "1M", "--factor", "200"]
        for kind in ("allreduce", "reduce", "broadcast", "reducescatter", "allgather"):
            for place in ([], ["--in-place"]):
                rows = self.rows(kind, "--spawn", "3", *sizes, "--type", types, "--op", "all",
                                 "--iters", "2", "--warmup", "1", "--check", *place)
                self.assertEqual(len(rows), 2 * 4 * 2 if quick else 8 * 4 * 3)
                for row in rows:
                    self.assertEqual((row["wrong"], row["stray_bytes"]), (0, 0))
                    self.assertGreater(row["checked"], 0)

    def test_rows_carry_the_promised_fields(self):
        [row] = self.rows("allreduce", "--spawn", "2", "--min-bytes", "4K", "--max-bytes", "4K",
                          "--type", "f32", "--iters", "50", "--check")
        for key in ("bytes", "time_us_p50", "time_us_p99", "algbw_GBps", "goodput_Gbps", "wrong",
                    "hash"):
            self.assertIn(key, row)
        self.assertEqual((row["bytes"], row["count"], row["wrong"]), (4096, 1024, 0))
        self.assertAlmostEqual(row["goodput_Gbps"], 8 * row["algbw_GBps"])

    def test_memory_kinds_shuffled_with_statistics(self):
        for memory in ("alloc", "shared", "adopt", "stage"):
            rows = self.rows("allreduce", "--spawn", "3", "--memory", memory, "--inflight", "9",
                             "--min-bytes", "20000", "--max-bytes", "20000", "--shuffle", "5",
                             "--misalign", "8", "--iters", "3", "--check-each", "--stats",
                             "--nonfinite", "--type", "f32,bf16,f64")
            self.assertEqual([row["wrong"] for row in rows], [0, 0, 0])
            self.assertTrue(all(row["nonfinite"] > 0 for row in rows))

    def test_bits_depend_on_nothing_but_the_inputs(self):
        model = self.scratch / "few.json"
        shapes = [[3, 5], [700, 1000], [1], [9001, 100], [4096]]
        model.write_text(json.dumps({"model": "few", "parameters": sum(map(math.prod, shapes)),
                                     "tensors": [[str(s), s] for s in shapes]}))
        rows = []
        for node in (["--shards", "1", "--isa", "scalar"],
                     ["--shards", "3", "--tile-bytes", "4K"], []):
            rows += self.rows("allreduce", "--spawn", "3", "--model", str(model), "--mode",
                              "tensors,buckets", "--bucket-bytes", "1M", "--type", "bf16", "--iters",
                              "1", "--warmup", "0", "--check", "--shuffle", "1", *node)
        self.assertEqual([row["wrong"] for row in rows], [0] * 6)
        self.assertEqual(len({row["hash"] for row in rows}), 1)

    def test_barrier_and_ceiling(self):
        self.assertEqual(len(self.rows("barrier", "--spawn", "2", "--iters", "5")), 1)
        for kind in ("allreduce", "broadcast"):
            [row] = self.rows(kind, "--spawn", "2", "--min-bytes", "1M", "--max-bytes", "1M",
                              "--iters", "5", "--ceiling")
            self.assertGreater(row["ceiling_GBps"], 0)
            self.assertIsNone(row["wrong"])

    def check_breakdown(self, row: dict, ranks: int):
        parts = row["breakdown"]
        stages = ["waiting_us", "queueing_us", "pulling_us", "summing_us", "pushing_us", "waking_us"]
        self.assertAlmostEqual(sum(parts[stage] for stage in stages), parts["operation_us"], 6)
        self.assertTrue(all(parts[stage] >= 0 for stage in stages[:-1]), parts)
        self.assertGreater(parts["summing_us"], 0)
        self.assertGreater(parts["cycles_per_byte"], 0)
        self.assertEqual([rank["rank"] for rank in parts["ranks"]], list(range(ranks)))
        self.assertEqual(sum(rank["times_last"] for rank in parts["ranks"]),
                         row["operations"] * row["iterations"])

    def test_breakdown(self):
        sizes = ["--min-bytes", "4K", "--max-bytes", "1M", "--factor", "256", "--iters", "20"]
        for how in ([], ["--inflight", "3", "--in-place", "--check"]):
            rows = self.rows("allreduce", "--spawn", "3", *sizes, *how, "--breakdown")
            self.assertEqual(len(rows), 2)
            for row in rows:
                self.check_breakdown(row, 3)
        table = self.run_it("reduce", "--spawn", "2", "--max-bytes", "4K", "--breakdown")
        self.assertRegex(table, r"wait +queue +pull +sum +push +wake +cyc/B +last")
        self.assertIn("barrier does not", self.run_it("barrier", "--spawn", "2", "--breakdown",
                                                      status=2))

    def test_a_time_instead_of_a_number(self):
        size = ["--min-bytes", "4K", "--max-bytes", "4K", "--check", "--duration", "0.3"]
        for how in ([], ["--latency"], ["--stream", "--inflight", "8"], ["--breakdown", "--in-place"],
                    ["--stream", "--inflight", "3", "--breakdown", "--ceiling"]):
            [row] = self.rows("allreduce", "--spawn", "2", *size, *how)
            self.assertGreater(row["iterations"], 1)
            self.assertEqual(row["wrong"], 0)
            self.assertLessEqual(row["time_us_min"], row["time_us_p50"])
            self.assertLessEqual(row["time_us_p99"], row["time_us_max"])
            if "--breakdown" in how:
                self.check_breakdown(row, 2)
        table = self.run_it("allreduce", "--spawn", "2", *size, "--latency", "--report-gbits")
        self.assertRegex(table, r"min +p50 +p95 +p99 +max +algbw")
        self.assertNotIn("GB/s", table)

    def test_transports_are_forced_and_reported(self):
        for transport in ("shm", "fabric"):
            output = self.run_it("allreduce", "--spawn", "2", "--transport", transport, "--max-bytes",
                               "64K", "--iters", "5", "--check", "--ceiling", "--report-gbits")
            self.assertRegex(output, f"shards?, transport {transport},")
            self.assertIn({"shm": "# ceiling: memory", "fabric": "# ceiling: plain sockets"}[transport],
                          output)
            self.assertIn("# 0 wrong of", output)

    def test_ranks_of_their_own(self):
        address = Tallyd(TALLYD, folder=self.scratch).address
        ranks = [Process([TALLY_PERF, "allreduce", "--address", address, "--rank", r, "--ranks", "3", "--job", "own",
                          "--max-bytes", "64K", "--check", "--breakdown", "--json", self.scratch / "own.json"])
                 for r in range(3)]
        self.assertIn("# 0 wrong of", ranks[0].finish(timeout=SECONDS))
        for rank in ranks[1:]:
            rank.finish(timeout=SECONDS)
            self.assertEqual(rank.stdout, "")
        for row in json.loads((self.scratch / "own.json").read_text())["rows"]:
            self.check_breakdown(row, 3)
        self.run_it("allreduce", "--address", address, "--spawn", "2", "--max-bytes", "64K")
        ranks = [Process([TALLY_PERF, "allreduce", "--address", address, "--rank", r, "--ranks", "2", "--job", "timed",
                          "--max-bytes", "4K", "--check", "--duration", "0.2", "--stream", "--inflight", "4"])
                 for r in range(2)]
        outputs = [rank.finish(timeout=SECONDS) for rank in ranks]
        self.assertIn("# 0 wrong of", outputs[0])

    def lone(self, address: str, *more: str, **environment: str) -> tuple[int, str]:
        """Rank 0 of 2, alone: (exit status, output)."""
        flags = ["--address", address] if address else []
        run = self.launch("allreduce", "--job", "lone", "--rank", "0", "--ranks", "2", *flags, *more, **environment)
        output = run.finish(None, SECONDS)
        return run.poll(), output

    def node(self) -> Tallyd:
        return Tallyd(TALLYD, "--shards", "1", "--log-level", "error", folder=self.scratch, name="n")

    def test_a_worker_of_a_job_that_never_fills_ends(self):
        address = self.node().address
        begun = time.monotonic()
        status, output = self.lone("", "--timeout", "4", TALLY_ADDRESS=address)
        self.assertEqual(status, 124, output)
        self.assertIn('rank 0: job "lone": 1 of 2 ranks have come\n', output)
        self.assertIn('rank 0: no progress for 4 s; job "lone": 1 of 2 ranks have come\n', output)
        self.assertLess(time.monotonic() - begun, 30)

    def test_a_worker_reports_that_it_waits_for_a_node(self):
        nowhere = f"unix:{self.scratch}/none"
        status, output = self.lone(nowhere, "--timeout", "5")
        self.assertEqual(status, 3, output)
        first, last = output.splitlines()[0], output.splitlines()[-1]
        self.assertIn(f"rank 0: waiting for a node: nobody listens at {self.scratch}/none", first)
        self.assertIn("rank 0: open: unavailable", last)
        output = self.run_it("allreduce", "--spawn", "2", "--address", nowhere, "--timeout", "8", status=3)
        self.assertTrue(output.startswith("tally-perf: waiting for a node: nobody listens at"), output)

    def test_a_worker_whose_node_stands_still_ends(self):
        node = self.node()
        node.pause()
        status, output = self.lone(node.address, "--timeout", "4")
        node.resume()
        self.assertIn(status, (3, 124), output)
        self.assertIn("rank 0: waiting for the node: ", output)

    def test_a_run_that_fails_leaves_the_file_of_another(self):
        file = self.scratch / "rows.json"
        file.write_text("good")
        self.run_it("allreduce", "--spawn", "2", "--address", f"unix:{self.scratch}/none", "--timeout", "1",
                    "--json", str(file), status=3)
        self.assertEqual(file.read_text(), "good")
        self.assertEqual([path.name for path in self.scratch.iterdir() if path != self.tmp], ["rows.json"])
        self.assertIn("give another --json", self.run_it("allreduce", "--spawn", "2", "--json",
                                                         f"{self.scratch}/no/rows.json", status=2))

    def test_suggests_the_word_for_a_mistyped_one(self):
        for arguments, meant in ((["allredcue", "--spawn", "2"], "allreduce"), (["allreduce", "--spwan", "2"], "--spawn"),
                             (["allreduce", "--spawn", "2", "--model", "resnet5"], "resnet50"),
                             (["allreduce", "--spawn", "2", "--type", "bf61"], "bf16"),
                             (["allreduce", "--spawn", "2", "--mode", "bucket"], "buckets"),
                             (["allreduce", "--spawn", "2", "--memory", "share"], "shared")):
            self.assertIn(f'did you mean "{meant}"?', self.run_it(*arguments, status=2))

    def test_a_killed_worker_is_named(self):
        run = self.start(*FOR_EVER)
        family = children(run.pid)
        os.kill(sorted(family["tally-perf"])[1], signal.SIGKILL)
        output = self.end(run, family, 3)
        self.assertIn("rank 1 ended: signal 9", output)
        self.assertIn("(rank 1 is to blame)", output)

    def test_a_killed_node_is_reported(self):
        run = self.start(*FOR_EVER)
        family = children(run.pid)
        os.kill(family[Path(TALLYD).name[:15]][0], signal.SIGKILL)
        output = self.end(run, family, 3)
        self.assertIn("the node ended: signal 9", output)

    def test_signals_leave_nothing_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            run = self.start(*FOR_EVER)
            family = children(run.pid)
            run.signal(number)
            self.end(run, family, 128 + number)

    def test_no_progress_ends(self):
        run = self.start(*FOR_EVER, "--timeout", "1")
        family = children(run.pid)
        for pid in family["tally-perf"]:
            os.kill(pid, signal.SIGSTOP)
        self.assertIn("no progress for 1 s", self.end(run, family, 124))

    def test_a_violent_death_takes_the_processes_along(self):
        run = self.start(*FOR_EVER)
        family = sum(children(run.pid).values(), [])
        run.kill()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(self.alive(pid) for pid in family):
            time.sleep(0.01)
        self.assertEqual([pid for pid in family if self.alive(pid)], [])

    @staticmethod
    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
        except OSError:
            return False

    def test_refuses_impossible_options(self):
        self.run_it("allreduce", status=2)
        self.run_it("allreduce", "--spawn", "2", "--type", "f8", status=2)
        self.assertIn("resnet50", self.run_it("allreduce", "--spawn", "2", "--model", "x", status=2))
        self.assertIn("available", self.run_it("allreduce", "--spawn", "900", "--model", "gpt2-xl",
                                               status=3))
        self.assertIn("did not start", self.run_it("allreduce", "--spawn", "2", "--node-arg=--bogus",
                                                   status=3))
        self.assertIn("nobody listens", self.run_it("allreduce", "--spawn", "2", "--address",
                                                    f"unix:{self.scratch}/none",
                                                    "--timeout", "2", status=3))


if __name__ == "__main__":
    TALLY_PERF, TALLYD = sys.argv[1:3]
    few = ("TallyPerf.test_every_collective_type_and_operation",
           "TallyPerf.test_ranks_of_their_own",
           "TallyPerf.test_a_killed_worker_is_named")
    unittest.main(argv=[sys.argv[0], *chosen(sys.argv[3:], few)], verbosity=2)
