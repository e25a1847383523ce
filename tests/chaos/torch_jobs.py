"""Jobs whose ranks are programs with torch: one sums with all_reduce, the other trains."""

import re
import subprocess
import time
from pathlib import Path

import curves
from finish import FinishJob
from job import Job

END_MARGIN = 50  # steps; all ranks get to know the last step before they reach it
IMPORT_S = 60
COMPARE_S = 1800  # a training in one process takes at most so long
NOISE = 2.0  # times the noise: by so much the loss may differ from that without faults
_STEP = re.compile(r"step (\d+) of (\d+) state (\d+) loss (\S+)")
_TOGETHER = re.compile(r"together before step (\d+)")


class Python:
    """The interpreter that a build is for, and the module of the build."""

    def __init__(self, build: Path):
        module = build / "integrations/python"
        named = module / "needs/interpreter.txt"
        self.interpreter = named.read_text().strip() if named.exists() else ""
        self.environment = {"PYTHONPATH": str(module), "OMP_NUM_THREADS": "1"}

    def missing(self) -> str:
        """Why no rank with torch can run; empty: one can."""
        if not self.interpreter:
            return "the build has no Python module: tools/setup --python, tools/build"
        tried = subprocess.run([self.interpreter, "-c", "import tally.torch"], env=self.environment, capture_output=True, text=True,
                               timeout=IMPORT_S)
        return (tried.stderr.strip().splitlines() or ["import tally.torch fails"])[-1] if tried.returncode else ""


class TorchJob(Job):
    """All operations are in place."""

    def start(self) -> None:
        self._store = f"store{self.record.jobs}"
        super().start()

    def _start_rank(self, number: int):
        return self.world.start_python_rank("torch_rank.py", self._store, number, self.options.ranks,
                                            self._count(), self.options.limit)


class TrainingJob(FinishJob):
    """A chunk is a step. A rank is missing in the steps that the others end without it."""

    def start(self) -> None:
        self._store = f"store{self.record.jobs}"
        self.steps = []       # by step: how many ranks contributed
        self.losses = []      # by step: the losses of those ranks
        self._closed = set()
        super().start()

    def _start_rank(self, number: int):
        returns = ["--returns"] if number in self.returning else []
        return self.world.start_python_rank("train.py", self._store, number, self.options.ranks, "--job", self._store,
                                            "--deadline", self.options.deadline, "--pause", self.options.pause, *returns,
                                            TALLY_ON_RANK_LOSS="finish")

    def _begun(self) -> int:
        return len(self.steps)

    # -- what happens --------------------------------------------------------------------------------

    def _take(self, number: int, line: str) -> None:
        if number in self.away:
            return
        if found := _STEP.fullmatch(line):
            self._has_trained(number, *map(int, found.groups()[:3]), float(found[4]))
        elif found := _TOGETHER.fullmatch(line):
            if number in self.returning:
                self.record.returns.append(time.monotonic() - self.returning.pop(number))
                self.results[number] = [None] * int(found[1])
        elif line == "ready":
            if number not in self.ready:  # the return of a rank is no progress of the others
                self.ready.add(number)
                self.last_progress = time.monotonic()
        elif line == "closed":
            self._closed.add(number)
        else:
            self._fail(number, line)

    def _has_trained(self, number: int, step: int, contributors: int, state: int, loss: float) -> None:
        if step != len(self.results[number]):
            self._fail(number, f"does step {step} after step {len(self.results[number]) - 1}")
            return
        self.results[number].append(f"{contributors} ranks, state {state}")
        if step == len(self.steps):
            self.steps.append(contributors)
            self.losses.append([])
        self.losses[step].append(loss)

    def _complete_chunks(self) -> None:
        while self.complete < len(self.steps) and self._is_complete(self.complete):
            now = time.monotonic()
            results = {self.results[number][self.complete] for number in self._reliable()
                       if len(self.results[number]) > self.complete} - {None}
            if len(results) > 1:
                self._fail_all(f"the ranks disagree on step {self.complete}: {results}")
            self.record.operations += 1
            self.record.progress.append((now, 1))
            self.record.spans.extend(self._progress(now))
            self.complete += 1

    def _is_complete(self, step: int) -> bool:
        """A rank that contributed may have died or stopped before it printed the step."""
        return (len(self.losses[step]) >= self.steps[step]
                or all(len(self.results[number]) > step for number in self._reliable()))

    def _reliable(self) -> list:
        """The ranks without a fault. A rank that was cut off may have ended a step with other contributors."""
        return [number for number in self._present() if not self._excused(number)]

    def _live(self) -> list:
        return [number for number in super()._live() if number not in self._closed]

    def _send_chunks(self) -> None:
        """Ranks train without being told to."""

    # -- the end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        self.draining = True
        while (self.away or self.returning) and not self.failures and not self.hangs:
            self._wait()
        if self.failures or self.hangs:
            return
        for rank in self.ranks:
            rank.send(f"until {len(self.steps) + END_MARGIN}")
        while len(self._closed) < len(self.ranks) and not self.failures and not self.hangs:
            self._wait()
        if self.failures or self.hangs:
            return
        for number, rank in enumerate(self.ranks):
            if not self.failures and (status := rank.wait(self.options.limit)):
                self._fail(number, f"ended with {status}")
        self._judge_curve([sum(some) / len(some) for some in self.losses[:self.complete]])
        self.last_progress = time.monotonic()  # the comparison takes minutes

    # -- the loss ------------------------------------------------------------------------------------

    def _judge_curve(self, curve: list) -> None:
        """Compares it with that of the same training without faults, and with that of other batches, which is the noise."""
        try:
            calm, other = (self._curve_alone(seed, len(curve)) for seed in (1, 2))
        except subprocess.SubprocessError as error:
            self._fail_all(f"the training without faults, for comparison: {error}\n{error.stderr or ''}")
            return
        self.record.curve = {"loss": curves.means(curve), "without_faults": curves.means(calm), "other_batches": curves.means(other),
                             "difference": curves.difference(curve, calm), "noise": curves.difference(calm, other)}
        if not self.record.curve["difference"] <= NOISE * self.record.curve["noise"]:
            self._fail_all(f"the loss differs by {self.record.curve['difference']:.3g} from that without faults, more than "
                           f"{NOISE} times the noise of {self.record.curve['noise']:.3g}")

    def _curve_alone(self, seed: int, steps: int) -> list:
        """The loss by step of the same training in one process, which has no faults."""
        done = subprocess.run([self.world.python.interpreter, Path(__file__).with_name("train.py"), "--alone",
                               str(self.options.ranks), str(steps), "--seed", str(seed)],
                              env=self.world.python.environment, capture_output=True, text=True, check=True, timeout=COMPARE_S)
        return [float(line) for line in done.stdout.split()]
