"""The programs that compute the figures of the tables: tallyctl and tally-perf of a build."""

import json
import subprocess
import tempfile
from pathlib import Path

CHUNK = 256 << 10  # bytes
ORDER = "oldest"  # which chunk a link takes first: see docs/simulator.md


class Programs:
    """For `with`: files that the programs read are in a folder of its own."""

    def __init__(self, tallyctl: Path, tally_perf: Path):
        self._tallyctl, self._tally_perf = tallyctl, tally_perf
        self._folder = tempfile.TemporaryDirectory(prefix="tally-papers-")

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *exception) -> None:
        self._folder.cleanup()

    def plan(self, network: dict) -> "Planned":
        """Packs trees for a network, in the form of docs/planning.md, "The file of a network"."""
        file = self._file("plan.json")
        self._run(self._tallyctl, "plan", "make", "--network", self._write("network.json", network), "--out", file)
        return Planned(self, file)

    def stars(self, workers: int, helpers: int, speed: float) -> "Planned":
        """Plans for full bisection, with NICs of the same speed."""
        file = self._file("plan.json")
        machines = [word for number in range(workers) for word in ("--worker", f"w{number}={speed / 1e9:g}GB")]
        machines += [word for number in range(helpers) for word in ("--helper", f"h{number}={speed / 1e9:g}GB")]
        self._run(self._tallyctl, "plan", "make", *machines, "--out", file)
        return Planned(self, file)

    def pipeline(self, profile: dict, gpus: dict, *options) -> dict:
        return self._json(self._tallyctl, "--json", "plan", "pipeline", "--profile", self._write("profile.json", profile),
                          "--gpus", self._write("gpus.json", gpus), *options)

    def groups(self, steps: dict, *options) -> dict:
        return self._json(self._tallyctl, "--json", "plan", "groups", "--steps", self._write("steps.json", steps), *options)

    def simulate(self, plan: Path, *options) -> list[dict]:
        return self._json(self._tally_perf, "sim", "--plan", plan, "--order", ORDER, "--json", "-", *options)["rows"]

    def _file(self, name: str) -> Path:
        return Path(self._folder.name, name)

    def _write(self, name: str, content: dict) -> Path:
        self._file(name).write_text(json.dumps(content))
        return self._file(name)

    def _json(self, *words) -> dict:
        return json.loads(self._run(*words))

    def _run(self, *words) -> str:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))[:300]}: {done.stderr.strip()}")
        return done.stdout


class Planned:
    """A plan in a file, which the next plan overwrites."""

    def __init__(self, programs: Programs, file: Path):
        self._programs, self._file = programs, file
        self.tau = json.loads(file.read_text())["domains"][0]["cert"]["tau"]  # seconds per byte

    def simulated(self, chunks: int) -> float:
        """Seconds per byte of an operation of so many chunks over the trees of the plan."""
        row, = self._programs.simulate(self._file, "--bytes", chunks * CHUNK, "--chunk", CHUNK)
        return row["seconds"] / row["bytes"]

    def baselines(self, names: list[str], chunks: int) -> dict[str, tuple[float, float]]:
        """For each baseline of tally-perf sim, seconds per byte: by its loads, and simulated."""
        rows = self._programs.simulate(self._file, "--no-plan", "--baseline", ",".join(names), "--bytes", chunks * CHUNK,
                                       "--chunk", CHUNK)
        return {row["work"]: (row["bound"] / row["bytes"], row["seconds"] / row["bytes"]) for row in rows}
