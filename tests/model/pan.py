"""Spin: makes, compiles and runs the verifier of a configuration (pan), and simulates single runs."""

import dataclasses
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODEL = Path(__file__).resolve().parent / "repair.pml"
MEMORY_LIMIT_MB = 4000
COMPILE_LIMIT_S = 300

_STATES = re.compile(r"^\s*(\d+) states, stored", re.MULTILINE)
_ERRORS = re.compile(r"errors: (\d+)$", re.MULTILINE)
_VIOLATION = re.compile(r"^pan:\d+: (.*) \(at depth \d+\)$", re.MULTILINE)
# pan's words for a search that has left something out.
_TRUNCATED = re.compile(r"search depth too small|MEMLIM|out of memory|truncated|hash-?table.*full|not completed",
                        re.IGNORECASE)
_EVENT = re.compile(r"[a-z_]+( [a-z_]+=\w+)+")


class ToolFailed(Exception):
    """Spin, the compiler or pan did not do its work. The text says what it printed."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    states: int
    violation: str  # empty: none
    complete: bool  # the search has visited every state, or has ended at the violation


def _run(command: list[str], folder: Path, limit_s: float) -> str:
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(f"{shlex.join(command)} did not end within {limit_s:.0f} s") from error
    if done.returncode != 0:
        raise ToolFailed(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def _defines(options: tuple[str, ...]) -> list[str]:
    return [f"-D{option}" for option in options]


def verify(options: tuple[str, ...], *, cycles: bool = False, small: bool = False, limit_s: float = 3600,
           depth: int = 100_000, memory_mb: int = MEMORY_LIMIT_MB) -> Outcome:
    """Searches all states. cycles: searches for runs that go on for ever, and not for other errors. small: the search
    is short, so the compiler need not optimize. A run has at most `depth` steps."""
    with tempfile.TemporaryDirectory(prefix="tally-model-") as place:
        folder = Path(place)
        _run(["spin", *_defines(options), "-a", str(MODEL)], folder, COMPILE_LIMIT_S)
        search = "-DNP" if cycles else "-DSAFETY"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        _run([*compiler, "-O0" if small else "-O1", "-w", search, "-DCOLLAPSE", "-DNOFAIR",
              f"-DMEMLIM={memory_mb}", "-o", "pan", "pan.c"], folder, COMPILE_LIMIT_S)
        command = ["./pan", f"-m{depth}", "-w18" if small else "-w22", "-n", *(["-l"] if cycles else [])]
        text = _run(command, folder, limit_s)
    errors, states = _ERRORS.search(text), _STATES.search(text)
    if not errors or not states:
        raise ToolFailed(f"pan printed no result:\n{text[-3000:]}")
    violation = _VIOLATION.search(text)
    if (errors[1] != "0") != bool(violation):
        raise ToolFailed(f"pan counted {errors[1]} errors:\n{text[-3000:]}")
    complete = bool(violation) or not _TRUNCATED.search(text)
    return Outcome(int(states[1]), violation[1] if violation else "", complete)


def simulate(options: tuple[str, ...], seeds: Iterable[int], jobs: int = 1) -> Iterator[list[str]]:
    """The events of one random run for each seed, a line each. The model is preprocessed once, because that takes longer
    than a run."""
    with tempfile.TemporaryDirectory(prefix="tally-model-") as place, ThreadPoolExecutor(jobs) as pool:
        folder = Path(place)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        text = _run([*compiler, "-E", "-x", "c", *_defines(("TRACE", "LATE_FAULTS", *options)), str(MODEL)], folder,
                    COMPILE_LIMIT_S)
        (folder / "model.pml").write_text(text, encoding="utf-8")

        def events(seed: int) -> list[str]:
            with tempfile.TemporaryDirectory(dir=folder) as own:  # spin writes files
                printed = _run(["spin", "-Pcat", "-T", f"-n{seed}", "../model.pml"], Path(own), COMPILE_LIMIT_S)
            return [line for line in printed.splitlines() if _EVENT.fullmatch(line)]

        yield from pool.map(events, seeds)
