"""A limit of CPU time for each rank on this machine, by control groups of Linux (version 1 or 2)."""

import math
import os
import time
from pathlib import Path

# A rank that has used its time waits for the next period. So that this looks like a slow processor, a period is short
# beside a microbatch.
PERIOD_US = 10_000
LEAST_QUOTA_US = 1000  # that Linux takes
VERSION_1 = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")
VERSION_2 = "/sys/fs/cgroup"


def period_and_quota(cores: float) -> tuple[int, int]:
    """In microseconds."""
    period = max(PERIOD_US, math.ceil(LEAST_QUOTA_US / cores))
    return period, round(cores * period)


class CpuLimits:
    """Control groups for `with`: one for each entry of `cores`. A process enters its own by enter().

    groups: their folders; empty when this machine or user cannot have them. `missing` says why.
    kind: the file that has the limit."""

    def __init__(self, cores: list[float]):
        self.groups: list[Path] = []
        self.kind, self.missing = "", ""
        self._cores = cores

    def __enter__(self) -> "CpuLimits":
        if os.geteuid() != 0:
            self.missing = "only root may make control groups"
            return self
        for kind, make in (("cpu.cfs_quota_us", _make_version_1), ("cpu.max", _make_version_2)):
            try:
                for rank, cores in enumerate(self._cores):
                    self.groups.append(make(f"tally-{os.getpid()}-{rank}", *period_and_quota(cores)))
                self.kind, self.missing = kind, ""
                return self
            except OSError as error:
                self.missing = f"no control group with a limit of CPU time can be made here: {error}"
                self._remove()
        return self

    def __exit__(self, *exception) -> None:
        self._remove()

    def _remove(self) -> None:
        for group in self.groups:
            _remove(group)
        self.groups = []


def _remove(group: Path) -> None:
    until = time.monotonic() + 2  # a process that has just ended may still count
    while True:
        try:
            group.rmdir()
            return
        except OSError as error:
            if time.monotonic() > until:
                print(f"{group} stays: {error.strerror}; remove it with rmdir", flush=True)
                return
            time.sleep(0.02)


def _make_version_1(name: str, period: int, quota: int) -> Path:
    root = next((Path(path) for path in VERSION_1 if Path(path, "cpu.cfs_period_us").exists()), None)
    if root is None:
        raise FileNotFoundError(f"{VERSION_1[0]} has no controller")
    return _made(root / name, {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)})


def _make_version_2(name: str, period: int, quota: int) -> Path:
    root = Path(VERSION_2)
    controllers = root / "cgroup.controllers"
    if not controllers.exists() or "cpu" not in controllers.read_text().split():
        raise FileNotFoundError(f"{controllers} does not name cpu")
    if "cpu" not in (root / "cgroup.subtree_control").read_text().split():
        (root / "cgroup.subtree_control").write_text("+cpu")
    return _made(root / name, {"cpu.max": f"{quota} {period}"})


def _made(group: Path, settings: dict[str, str]) -> Path:
    group.mkdir()
    try:
        for file, value in settings.items():
            (group / file).write_text(value)
    except OSError:
        group.rmdir()
        raise
    return group


def enter(group: Path) -> None:
    """Moves this process, with all its threads, into the group."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
