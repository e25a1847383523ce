"""A tallyd of one's own and jobs at it, for measurements that tally-perf alone cannot make."""

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from ports import free_port  # noqa: E402, F401: users of this file need it too
from processes import TIMEOUT, Process, Tallyd  # noqa: E402

TOKEN = "measured"


class RunningNode(Tallyd):
    """A node in a directory of its own; `with` ends it and all jobs that were started at it.

    `jobs`: weight and ranks by name. `arguments` are passed to tallyd.
    """

    def __init__(self, build: Path, jobs: dict[str, tuple[int, int]], arguments: list[str]):
        self.build = build
        self.runs: list[Process] = []
        super().__init__(build / "control/tallyd", "--log-level", "error", *arguments, config="open_jobs = true\n" + "".join(
            f'[[jobs]]\nname = "{name}"\ntoken = "{TOKEN}"\nweight = {weight}\nranks = {ranks}\n'
            for name, (weight, ranks) in jobs.items()))

    def __exit__(self, *exception) -> None:
        for run in self.runs:
            run.end()
        super().__exit__(*exception)

    def perf(self, job: str, *arguments: str, token: bool = True) -> Process:
        """Starts a tally-perf at the node; its JSON is its standard output."""
        self.runs.append(Process([self.build / "perf/tally-perf", "allreduce", "--address", self.address, "--job", job,
                                  *(["--token", TOKEN] if token else []), "--quiet", "--json", "-", *arguments]))
        return self.runs[-1]

    def rows(self, perf: Process) -> list[dict]:
        """Waits for a tally-perf to end; what it measured."""
        perf.finish(timeout=float("inf"))
        perf.end()
        return json.loads(perf.stdout)["rows"]

    def ask(self, *what: str) -> object:
        return json.loads(subprocess.run(
            [self.build / "control/tallyctl", "--address", self.address, "--json", *what],
            check=True, text=True, capture_output=True).stdout)

    def bytes_by_job(self) -> dict[str, int]:
        return {job["name"]: job["times"]["bytes"] for job in self.ask("jobs")}

    def wait_until(self, ready) -> None:
        until = time.monotonic() + TIMEOUT
        while not ready():
            if time.monotonic() > until:
                raise SystemExit(f"the jobs did not begin within {TIMEOUT} s")
            time.sleep(0.05)

    def cpu_seconds(self) -> float:
        """Of user and system, of all its threads, since it was started."""
        return sum(int(file.read_text().split()[0]) for file in
                   Path(f"/proc/{self.pid}/task").glob("*/schedstat")) / 1e9


def default_build() -> Path:
    return ROOT / "build"
