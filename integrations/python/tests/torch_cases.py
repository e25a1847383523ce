"""torch's own tests of torch.distributed (torch/testing/_internal/distributed/distributed_test.py), with the backend
"tally" wherever they ask for "gloo".

What gloo passes, tally must pass; torch_cases.json has gloo's outcomes for 2, 3 and 4 ranks. The same processes run one
case after the other, because most of the time of a case is the import of torch.

usage: torch_cases.py [--backend tally|gloo] [--ranks N] [--all | CASE...] [--results FILE] [--record]

Without cases it runs those that gloo passes. --results names a file that keeps the outcomes: a later call
runs only the cases that it does not have. --record writes gloo's outcomes into torch_cases.json.
"""

import argparse
import contextlib
import datetime
import faulthandler
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
import unittest
from pathlib import Path
from typing import Optional

import group
from processes import Failed

TABLE = Path(__file__).with_name("torch_cases.json")
CASE_SECONDS = 90
# These ask whether the group is called "gloo".
ONLY_GLOO = {"test_ddp_logging_data_cpu"}


# --- one rank ------------------------------------------------------------------------------------------------------


def use_tally() -> None:
    """Makes torch make a group of the backend "tally" where it would make one of gloo."""
    from torch.distributed import distributed_c10d as c10d

    import tally.torch
    gloo = c10d.ProcessGroupGloo
    ours = tally.torch._torch.Group

    class InPlaceOfGloo(type):
        def __call__(cls, store, rank, size, timeout):
            return tally.torch.create_backend(store, rank, size, timeout)

        def __instancecheck__(cls, instance):
            return isinstance(instance, (ours, gloo))

    c10d.ProcessGroupGloo = InPlaceOfGloo("ProcessGroupGloo", (), {})

    # DistributedDataParallel asks a group of the type GLOO for what only torch's own class has.
    custom, of_gloo = c10d.ProcessGroup.BackendType.CUSTOM, c10d.ProcessGroup.BackendType.GLOO
    for name in ("_set_default_backend", "_register_backend"):
        original = getattr(c10d.ProcessGroup, name)
        setattr(c10d.ProcessGroup, name, lambda *arguments, original=original: original(
            *(custom if argument == of_gloo else argument for argument in arguments)))

    # A span of the profiler has the name of the backend that did it.
    from torch.testing._internal.distributed import distributed_test
    events_of = distributed_test.get_profiling_event
    distributed_test.get_profiling_event = lambda name, *arguments, **options: events_of(name, *arguments, **options) + (
        events_of(name.replace("gloo:", "tally:"), *arguments, **options) if name.startswith("gloo:") else [])


def case_class():
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())  # the module reads it
    from torch.testing._internal.distributed import distributed_test

    class Cases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        pass
    return Cases, distributed_test


def barrier_of(case: str, store, ranks: int):
    """In place of the barrier that torch's tests have between processes, which looks every 0.1 s into a folder."""
    numbers = itertools.count()

    def sync(wait_for: Optional[int] = None, timeout: float = 10) -> None:
        key = f"{case}/barrier {next(numbers)}"
        if store.add(key, 1) == (wait_for or ranks):
            store.set(f"{key} is full", "")
        store.wait([f"{key} is full"], datetime.timedelta(seconds=timeout))
    return sync


def run_case(case: str, store, rank: int, ranks: int, place: str) -> str:
    """Returns "ok", "skipped" or "failed: why"."""
    import torch.distributed as dist
    from torch.testing._internal.common_distributed import TEST_SKIPS
    classes, module = case_class()
    skips = {skip.exit_code for skip in TEST_SKIPS.values()}
    test = classes(case)
    test.rank, test.file_name = rank, f"{place}/{case}"
    os.environ["TEMP_DIR"] = f"{place}/{case}.d"
    os.makedirs(f"{place}/{case}.d/test_dir", exist_ok=True)
    try:
        seconds = module.CUSTOM_PG_TIMEOUT.get(case, module.default_pg_timeout)
        dist.init_process_group("gloo", init_method=test.init_method, rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=seconds))
        module.Barrier.sync = barrier_of(case, store, ranks)
        store.set(f"{case}/made by {rank}", "")  # a rank that skips the case would end while others connect
        store.wait([f"{case}/made by {other}" for other in range(ranks)])
        getattr(test, case)()
        return "ok"
    except unittest.SkipTest:
        return "skipped"
    except SystemExit as end:
        return "skipped" if end.code in skips else f"failed: exit {end.code}"
    except BaseException:  # pylint: disable=broad-except
        return "failed: " + traceback.format_exc()


def run_rank(cases: list[str], place: str) -> None:
    """Runs the cases; a line of JSON for each. Ends after a failure: other ranks may be elsewhere then."""
    import torch
    from torch.distributed import TCPStore
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), ranks, rank == 0,
                     timeout=datetime.timedelta(seconds=CASE_SECONDS))
    del os.environ["MASTER_PORT"]
    if os.environ["CASES_BACKEND"] == "tally":
        use_tally()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for case in cases:
        torch.manual_seed(0)
        faulthandler.dump_traceback_later(CASE_SECONDS - 10)
        outcome = run_case(case, store, rank, ranks, place)
        print(json.dumps({"case": case, "outcome": outcome}), file=out, flush=True)
        faulthandler.cancel_dump_traceback_later()
        store.set(f"{case}/{rank}", outcome)
        outcomes = [store.get(f"{case}/{other}") for other in range(ranks)]
        if any(one.startswith(b"failed") for one in outcomes):
            break
        # Not before all have ended the case: some wait for a rank that does nothing.
        with contextlib.suppress(Exception):
            torch.distributed.destroy_process_group()
    # Without the ends of torch's objects: a case may have left groups behind.
    store.set(f"end/{rank}", "")
    if rank == 0:
        store.wait([f"end/{other}" for other in range(ranks)])
    out.flush()
    os._exit(0)


# --- all ranks -----------------------------------------------------------------------------------------------------


class Batch:
    """Processes of all ranks that run cases one after the other, until one fails."""

    def __init__(self, backend: str, ranks: int, cases: list[str], address: str):
        self.place = tempfile.TemporaryDirectory(prefix="tally-torch-cases-")
        Path(self.place.name, "cases").write_text("\n".join(cases))
        self.processes = group.start_ranks([sys.executable, __file__, "--rank-of", self.place.name], ranks, TALLY_ADDRESS=address,
                                           CASES_BACKEND=backend, BACKEND="gloo", MASTER_ADDR="127.0.0.1")

    def outcomes(self, cases: list[str]):
        """Yields (case, outcome) until the processes end."""
        for case in cases:
            found = [self._outcome(process, case) for process in self.processes]
            if None in found:
                outputs = "\n".join(process.output()[-2000:] for process in self.processes)
                yield case, f"failed: no end in time, or a process ended: {found}\n{outputs}"
                return
            worst = next((one for one in found if one.startswith("failed")), found[0])
            yield case, worst
            if worst.startswith("failed"):
                return

    @staticmethod
    def _outcome(process, case: str) -> Optional[str]:
        until = time.monotonic() + CASE_SECONDS
        try:
            while True:
                report = json.loads(process.line(max(0.1, until - time.monotonic())))
                if report["case"] == case:
                    return report["outcome"]
        except Failed:
            return None

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        self.place.cleanup()


def run(backend: str, ranks: int, cases: list[str], results: dict, save) -> None:
    """Adds the outcome of each case to `results`."""
    with group.node() as node:
        left = [case for case in cases if case not in results]
        while left:
            batch = Batch(backend, ranks, left, node.address)
            try:
                for case, outcome in batch.outcomes(left):
                    results[case] = outcome
                    print(f"{outcome.splitlines()[0][:20]:20} {case}", flush=True)
                    save()
            finally:
                batch.end()
            left = [case for case in left if case not in results]


def all_cases() -> list[str]:
    return sorted(name for name in dir(case_class()[0]) if name.startswith("test_"))


def compare(expected: dict, found: dict) -> int:
    """Prints what gloo passes and `found` does not. Returns the number of these cases."""
    worse = [case for case, outcome in found.items() if case not in ONLY_GLOO and
             (expected[case] == "ok" != outcome if case in expected else outcome.startswith("failed"))]
    for case in worse:
        print(f"FAILED {case}\n{found[case]}")
    counts = {kind: sum(outcome.startswith(kind) for outcome in found.values()) for kind in ("ok", "skipped", "failed")}
    print(f"{counts['ok']} ok, {counts['skipped']} skipped, {counts['failed']} failed, "
          f"{len(worse)} of them pass with gloo")
    return len(worse)


def main() -> int:
    if sys.argv[1:2] == ["--rank-of"]:
        place = sys.argv[2]
        run_rank(Path(place, "cases").read_text().split(), place)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["tally", "gloo"], default="tally")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": str(arguments.ranks), "TEMP_DIR": tempfile.gettempdir()}  # torch reads them
    group.WarmProgram.imports += ("torch.testing._internal.distributed.distributed_test",)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    expected = table.get(str(arguments.ranks), {})
    cases = all_cases() if arguments.all else arguments.cases or [
        case for case, outcome in expected.items() if outcome == "ok" and case not in ONLY_GLOO]
    unknown = set(arguments.cases) - set(all_cases()) if arguments.cases else ()
    if unknown:
        parser.error(f"this torch has no case {' '.join(unknown)}")
    if not cases:
        parser.error(f"{TABLE.name} has no cases for {arguments.ranks} ranks: --all runs all")
    results = json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else {}

    def save() -> None:
        if arguments.results:
            arguments.results.write_text(json.dumps(results, indent=1))

    run(arguments.backend, arguments.ranks, cases, results, save)
    if arguments.record:
        table[str(arguments.ranks)] = {case: outcome.split(":")[0] for case, outcome in sorted(results.items())}
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    return 1 if compare(expected, {case: results[case] for case in cases}) else 0


if __name__ == "__main__":
    sys.exit(main())
