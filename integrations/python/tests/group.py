"""Runs cases in groups of processes, for the tests of this folder.

A test file calls main(cases, widths): it starts itself W times for each width W, with a node of the
test's own, and every process runs all cases in the same order. A case is a function of (rank, ranks);
it fails by raising. A case may also be a Program, which has processes of its own. The parent counts, and
looks that nothing is left behind.

usage of a test file: FILE [--widths 1,2] [CASE...]
"""

import argparse
import dataclasses
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/support"))
from ports import free_port  # noqa: E402
from processes import Hang, Process, Tallyd  # noqa: E402
from warm_start import SHORT_END, WarmProgram  # noqa: E402

SOAK = os.environ.get("TALLY_TEST_TIER") == "soak"
DEADLINE_S = 240
# Unless this is set, torch's launcher keeps its store when it starts the ranks again. Then groups of gloo, and launchers
# that join later, find old keys in it.
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@dataclasses.dataclass
class Program:
    """A case in ranks of its own, because a process reads these settings, or imports these modules, when it starts."""

    words: tuple  # a file of this folder, and its arguments
    widths: tuple
    environment: dict = dataclasses.field(default_factory=dict)

    def start(self, ranks: int, **more) -> list[Process]:
        file, *arguments = self.words
        return start_ranks([sys.executable, str(Path(__file__).with_name(file)), *arguments], ranks, **more, **self.environment)


def node() -> Tallyd:
    return Tallyd(os.environ["TALLYD"], "--log-level", "error")


def start_ranks(command: list, ranks: int, short_end: bool = False, **more: str) -> list[Process]:
    """Processes with the environment that torchrun gives, and each its own output.

    short_end: except in tier soak, ranks that end well skip torch's end (see warm_start.py). For tests of which other
    ranks end as programs do."""
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1",
              "GLOO_SOCKET_IFNAME": "lo", "PYTHONFAULTHANDLER": "1", **({SHORT_END: "1"} if short_end and not SOAK else {}), **more}
    popen = WarmProgram if WarmProgram.imports else subprocess.Popen
    return [Process(command, environment={"RANK": str(rank), "LOCAL_RANK": str(rank), **common}, popen=popen)
            for rank in range(ranks)]


def launched(ranks: int, *arguments: str, **more: str) -> Process:
    """A `torch.distributed.run`. Its own port is always the same unless it is set, and several may run at once."""
    return Process([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *arguments],
                   environment={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PET_MASTER_PORT": str(free_port()),
                                "PYTHONFAULTHANDLER": "1", **more},
                   popen=WarmProgram)


def show_stacks(processes: list[Process]) -> None:
    """Ends those that run; faulthandler prints their stacks. All at once, because ranks end when one of them does."""
    for process in processes:
        process.signal(signal.SIGABRT)
    time.sleep(1)


def outputs(processes: list[Process], deadline_s: float = DEADLINE_S) -> list[str]:
    """What each one printed; all are gone afterwards."""
    until = time.monotonic() + deadline_s
    texts = []
    for process in processes:
        late = ""
        try:
            process.wait(max(1.0, until - time.monotonic()))
        except Hang:
            show_stacks(processes)
            process.kill()
            late = "\nKILLED: no end in time\n"
        texts.append(process.output() + late)
    return texts


def raises(part: str, call, *arguments, **named) -> None:
    """Fails unless the call raises a RuntimeError with this part in its message."""
    try:
        call(*arguments, **named)
    except RuntimeError as error:
        assert part in str(error), error
        return
    raise AssertionError(f"no error with: {part}")


def run_all(cases: dict, rank: int, ranks: int) -> int:
    failed = 0
    for name, case in cases.items():
        try:
            case(rank, ranks)
            print(f"ok {name}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {name} (rank {rank} of {ranks})\n{traceback.format_exc()}", flush=True)
    return failed


def end_well(what: str, processes: list[Process]) -> bool:
    """Waits for all ranks; prints what each one printed unless all of them end with 0."""
    texts = outputs(processes)
    codes = [process.poll() for process in processes]
    good = not any(codes)
    print(f"{'ok' if good else 'FAILED'}: {what} with {len(processes)} ranks", flush=True)
    if not good:
        for rank, text in enumerate(texts):
            print(f"--- rank {rank}, exit status {codes[rank]}\n{text}", flush=True)
    return good


def main(cases: dict, widths=(1, 2, 3, 4), prepare=None, finish=None) -> None:
    """cases: by name, in the order in which they run; each one a function or a Program. With `finish`, all groups but the
    widest have a short end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--widths", type=lambda text: [int(w) for w in text.split(",")],
                        default=list(widths))
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    chosen = {name: case for name, case in cases.items()
              if not arguments.cases or name in arguments.cases}
    if "RANK" in os.environ:
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if prepare is not None:
            prepare(rank, ranks)
        failed = run_all({name: case for name, case in chosen.items() if callable(case)}, rank, ranks)
        if finish is not None:
            finish()
        sys.exit(1 if failed else 0)
    command = [sys.executable, str(Path(sys.argv[0]).resolve()), *arguments.cases]
    programs = {name: case for name, case in chosen.items() if isinstance(case, Program)}
    good = True
    for ranks in arguments.widths:
        short_end = finish is not None and ranks != max(arguments.widths)
        with node() as own:
            if len(programs) < len(chosen):
                good &= end_well(f"{len(chosen) - len(programs)} cases",
                                 start_ranks(command, ranks, short_end, TALLY_ADDRESS=own.address))
            for name, program in programs.items():
                if ranks in program.widths:
                    good &= end_well(name, program.start(ranks, TALLY_ADDRESS=own.address))
    sys.exit(0 if good else 1)
