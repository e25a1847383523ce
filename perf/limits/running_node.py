"""A tallyd of one's own and jobs at it, for measurements that tally-perf alone cannot make."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from ports import free_port  # noqa: E402, F401, for who has a node

PATIENCE = 60  # seconds that anything may take that should take milliseconds
TOKEN = "measured"


class RunningNode:
    """A node in a directory of its own; `with` ends it and all jobs that were started at it.

    `jobs`: weight and ranks by name. `arguments` are passed to tallyd; "{address}" is its own address.
    """

    def __init__(self, build: Path, jobs: dict[str, tuple[int, int]], arguments: list[str]):
        self.build = build
        self.directory = tempfile.TemporaryDirectory(prefix="tally-limits-")
        self.address = f"unix:{self.directory.name}/tallyd.sock"
        config = Path(self.directory.name) / "tallyd.toml"
        config.write_text("open_jobs = true\n" + "".join(
            f'[[jobs]]\nname = "{name}"\ntoken = "{TOKEN}"\nweight = {weight}\nranks = {ranks}\n'
            for name, (weight, ranks) in jobs.items()))
        self.children: list[subprocess.Popen] = []
        self.process = self._start([build / "control/tallyd", "--config", config, "--listen",
                                    self.address, "--log-level", "error", "--ready-fd", "1",
                                    *(word.format(address=self.address) for word in arguments)])
        if self.process.stdout.readline() != "ready\n":
            self.close()
            raise SystemExit("the node did not start: its message stands above")

    def _start(self, command: list) -> subprocess.Popen:
        child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def __enter__(self) -> "RunningNode":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        for child in reversed(self.children):  # the node last
            child.terminate()
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            child.stdout.close()
        self.children = []
        self.directory.cleanup()

    def perf(self, job: str, *arguments: str, token: bool = True) -> subprocess.Popen:
        """Starts a tally-perf at the node; its JSON is its standard output."""
        return self._start([self.build / "perf/tally-perf", "allreduce", "--address", self.address,
                            "--job", job, *(["--token", TOKEN] if token else []), "--quiet",
                            "--json", "-", *arguments])

    def rows(self, perf: subprocess.Popen) -> list[dict]:
        """Waits for a tally-perf to end; what it measured."""
        text = perf.communicate()[0]
        self.children.remove(perf)
        if perf.returncode != 0:
            raise SystemExit(f"tally-perf ended with {perf.returncode}: its message stands above")
        return json.loads(text)["rows"]

    def ask(self, *what: str) -> object:
        return json.loads(subprocess.run(
            [self.build / "control/tallyctl", "--address", self.address, "--json", *what],
            check=True, text=True, capture_output=True).stdout)

    def bytes_by_job(self) -> dict[str, int]:
        return {job["name"]: job["times"]["bytes"] for job in self.ask("jobs")}

    def wait_until(self, ready) -> None:
        until = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > until:
                raise SystemExit(f"the jobs did not begin within {PATIENCE} s")
            time.sleep(0.05)

    def cpu_seconds(self) -> float:
        """Of user and system, of all its threads, since it was started."""
        return sum(int(file.read_text().split()[0]) for file in
                   Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")) / 1e9


def default_build() -> Path:
    return ROOT / "build"
