"""The systems that are compared: how each is built, started, and what it says."""
from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/support"))
from processes import Process, Tallyd  # noqa: E402

LIMIT_S = 300  # for one run of one system
# Open MPI's shared-memory collectives win from here on, UCX below.
SM_COLLECTIVES_FROM = 64 << 20


class Unavailable(Exception):
    """The system is not installed; says what is missing."""


@dataclass
class Run:
    """One process group's iterations of one size."""
    times_us: list[float]
    wrong: int
    ceiling_gbps: float | None = None  # GB/s of algorithm bandwidth, where it was measured


def execute(command: list[str], **options) -> str:
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LIMIT_S, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nexit status {done.returncode}\n"
                           f"{done.stdout}{done.stderr}")
    return done.stdout


def parse(output: str) -> Run:
    document = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return Run(document["times_us"], document["wrong"])


def need(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise Unavailable(f"{program} is missing: apt-get install {package}")
    return found


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Tally:
    name = "tally"

    def __init__(self, scratch: Path, tally_perf: Path, shards: int, transport: str):
        self.scratch, self.tally_perf, self.shards, self.transport = scratch, tally_perf, shards, transport
        if not tally_perf.is_file():
            raise Unavailable(f"{tally_perf} is not built: tools/build")

    def run(self, ranks: int, size: int, iterations: int, warmup: int) -> Run:
        report = self.scratch / "tally.json"
        execute([str(self.tally_perf), "allreduce", "--spawn", str(ranks), "--shards",
                 str(self.shards), "--transport", self.transport, "--min-bytes", str(size), "--max-bytes", str(size), "--iters",
                 str(iterations), "--warmup", str(warmup), "--check", "--ceiling", "--quiet",
                 "--json", str(report)])
        [row] = json.loads(report.read_text())["rows"]
        # The median is all that is needed of the times.
        return Run([row["time_us_p50"]], row["wrong"], row["ceiling_GBps"])


def finish_all(group: list[Process]) -> None:
    """Waits until all have ended well, and kills the others when one has not."""
    try:
        for process in group:
            process.finish(timeout=LIMIT_S)
    finally:
        for process in group:
            process.end()


class TallyOnEachMachine(Tally):
    """A node for each rank, as if each had a machine of its own: what goes from one of these to another goes over
    TCP, as it does between peers of the other systems."""

    def __init__(self, scratch: Path, tally_perf: Path, shards: int):
        super().__init__(scratch, tally_perf, shards, "fabric")
        self.tallyd = tally_perf.parents[1] / "control/tallyd"

    def run(self, ranks: int, size: int, iterations: int, warmup: int) -> Run:
        coordinator = f"tcp:{free_address()}"
        with contextlib.ExitStack() as nodes:
            for rank in range(ranks):
                nodes.enter_context(Tallyd(
                    self.tallyd, "--listen-tcp", coordinator if rank == 0 else "tcp:127.0.0.1:0", "--verbs", "off", "--shards",
                    self.shards, "--cluster", coordinator, "--cluster-name", f"m{rank}", "--cluster-host", f"m{rank}",
                    "--cluster-role", "worker", "--log-level", "error"))
            self.wait_for_members(coordinator, ranks)
            return self.measure(coordinator, ranks, size, iterations, warmup)

    def wait_for_members(self, coordinator: str, count: int) -> None:
        for _ in range(1000):
            listed = execute([str(self.tallyd.parent / "tallyctl"), "--address", coordinator, "--json", "nodes"])
            if len(json.loads(listed)) == count:
                return
            time.sleep(0.01)
        raise RuntimeError(f"not all nodes have joined: {listed}")

    def measure(self, address: str, ranks: int, size: int, iterations: int, warmup: int) -> Run:
        report = self.scratch / "tally.json"
        meeting = free_address()
        common = [str(self.tally_perf), "allreduce", "--address", address]
        server = ["--serve", meeting, "--ranks", str(ranks), "--min-bytes", str(size), "--max-bytes", str(size), "--iters",
                  str(iterations), "--warmup", str(warmup), "--check", "--quiet", "--json", str(report)]
        finish_all([Process([*common, "--rank", rank, *(server if rank == 0 else ["--join", meeting])],
                            environment={"TALLY_HOST": f"m{rank}"}) for rank in range(ranks)])
        [row] = json.loads(report.read_text())["rows"]
        return Run([row["time_us_p50"]], row["wrong"])


class OpenMpi:
    name = "openmpi"

    def __init__(self, scratch: Path):
        self.program = scratch / "openmpi_allreduce"
        execute([need("mpicc.openmpi", "libopenmpi-dev openmpi-bin"), "-O2", "-o",
                 str(self.program), str(HERE / "mpi_allreduce.c")])
        self.mpirun = need("mpirun.openmpi", "openmpi-bin")

    def run(self, ranks: int, size: int, iterations: int, warmup: int) -> Run:
        if size >= SM_COLLECTIVES_FROM:
            how = ["--mca", "coll_sm_priority", "100"]
        else:
            how = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca",
                   "opal_common_ucx_devices", "any", "-x", "UCX_TLS=self,sysv,posix,cma"]
        if ranks > 2:
            how += ["--mca", "mpi_yield_when_idle", "1"]
        return parse(execute([self.mpirun, "--allow-run-as-root", "--oversubscribe", "-n",
                              str(ranks), *how, str(self.program), str(size), str(iterations),
                              str(warmup)]))


class Mpich:
    name = "mpich"

    def __init__(self, scratch: Path):
        self.program = scratch / "mpich_allreduce"
        execute([need("mpicc.mpich", "libmpich-dev mpich"), "-O2", "-o", str(self.program),
                 str(HERE / "mpi_allreduce.c")])
        self.mpirun = need("mpirun.mpich", "mpich")

    def run(self, ranks: int, size: int, iterations: int, warmup: int) -> Run:
        return parse(execute([self.mpirun, "-n", str(ranks), str(self.program), str(size),
                              str(iterations), str(warmup)]))


class Gloo:
    name = "gloo"

    def __init__(self, scratch: Path):
        self.program = scratch / "gloo_allreduce"
        if not Path("/usr/include/gloo/allreduce.h").is_file():
            raise Unavailable("Gloo is missing: apt-get install libgloo-dev")
        execute(["c++", "-std=c++17", "-O2", "-w", "-o", str(self.program),
                 str(HERE / "gloo_allreduce.cc"), "-lgloo", "-lpthread"])

    def run(self, ranks: int, size: int, iterations: int, warmup: int) -> Run:
        return self._run([subprocess.Popen] * ranks, "lo", size, iterations, warmup)

    def run_at(self, machines: list, size: int, iterations: int, warmup: int) -> Run:
        """A rank at each of these machines of a simulated network."""
        return self._run([machine.popen for machine in machines], machines[0].interface, size, iterations, warmup)

    def _run(self, places: list, interface: str, size: int, iterations: int, warmup: int) -> Run:
        with tempfile.TemporaryDirectory() as meeting:
            group = [Process([self.program, meeting, rank, len(places), size, iterations, warmup, interface], popen=popen)
                     for rank, popen in enumerate(places)]
            finish_all(group)
        return parse(group[0].stdout)
