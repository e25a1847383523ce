#!/usr/bin/env python3
"""The wheel of docs/pytorch.md: built from a clean copy of the sources and installed into an environment of its own, it
trains without the build tree.

usage: wheel_test.py        compiles the project once more, so it runs in tier soak ($TALLY_TEST_TIER) alone

The environment takes the Python packages that the active environment, or .venv, has.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tools/checks")]
from check_symbols import has_fault_points  # noqa: E402
from ports import free_port  # noqa: E402

SKIPPED = 77
TIMEOUT = 1800
BACKEND = """
import torch, torch.distributed as dist
dist.init_process_group("tally")
tensor = torch.full((300_000,), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
assert (tensor == 3).all(), tensor
dist.destroy_process_group()
print("sum", flush=True)
"""
SESSION = """
import numpy, tally
with tally.connect(rank=0, ranks=1) as session:
    array = numpy.ones(10, numpy.float32)
    session.all_reduce(array, op="sum").wait()
    assert (array == 1).all()
"""


def run(*command: str | Path, folder: Path, **settings: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TALLY", "PYTHONPATH"))}
    done = subprocess.run([str(word) for word in command], cwd=folder, env={**inherited, **settings}, text=True,
                          timeout=TIMEOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command[:5])}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def main() -> int:
    if os.environ.get("TALLY_TEST_TIER") != "soak":
        print("skipped: builds the whole project; runs in tier soak")
        return SKIPPED
    python = run(ROOT / "tools/lib/interpreter", folder=ROOT).strip()
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=ROOT).strip()
    with tempfile.TemporaryDirectory(prefix="tally-wheel-") as name:
        folder = Path(name)
        sources, environment = folder / "sources", folder / "environment"
        run("git", "clone", "-q", ROOT, sources, folder=folder)
        run(python, "-m", "venv", environment, folder=folder)
        of_environment = environment / "bin/python"
        own = Path(run(of_environment, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder).strip())
        (own / "packages.pth").write_text(packages + "\n")
        path = f"{environment}/bin:{Path(python).parent}:{os.environ['PATH']}"
        run(of_environment, "-m", "pip", "install", "--no-build-isolation", "--no-deps", sources, folder=folder, PATH=path)
        subprocess.run(["rm", "-rf", sources], check=True)
        assert not has_fault_points(next(own.rglob("_core*.so")))
        (folder / "backend.py").write_text(BACKEND)
        output = run(of_environment, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()),
                     "backend.py", folder=folder, PATH=path, GLOO_SOCKET_IFNAME="lo")
        assert output.count("sum") == 2, output
        run(of_environment, "-c", SESSION, folder=folder, PATH=path)
    print("the wheel trains")
    return 0


if __name__ == "__main__":
    sys.exit(main())
