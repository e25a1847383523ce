#!/usr/bin/env python3
"""An install as docs/deploy.md describes it: it has no fault points, and its programs run.

usage: install_test.py        builds the project once more, so it runs in tier soak ($TALLY_TEST_TIER) alone
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
TIMEOUT = 1800


def run(*command: str | Path, status: int = 0, **settings: str) -> str:
    done = subprocess.run([str(word) for word in command], env={**os.environ, **settings}, text=True, timeout=TIMEOUT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != status:
        sys.exit(f"{command[0]}: status {done.returncode}, expected {status}\n{done.stdout}")
    return done.stdout


def main() -> int:
    if os.environ.get("TALLY_TEST_TIER") != "soak":
        print("skipped: builds the whole project; runs in tier soak")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="tally-install-") as folder:
        build, root = Path(folder) / "out-install", Path(folder) / "root"
        run("meson", "setup", build, ROOT, "-Dtests=false")
        run("meson", "install", "-C", build, "--destdir", root)
        library = next(root.rglob("libtally.so"))
        run(sys.executable, ROOT / "tools/checks/check_symbols.py", library, "false")
        tallyd = next(root.rglob("tallyd"))
        libraries = str(library.parent)
        run(tallyd, "--version", LD_LIBRARY_PATH=libraries)
        message = run(tallyd, "--listen", f"unix:{folder}/s.sock", status=2, LD_LIBRARY_PATH=libraries,
                      TALLY_DEBUG_STEP="node.placed:kill")
        if "no fault points" not in message:
            sys.exit(f"tallyd: a message that does not name the build: {message}")
    print("install: libtally without fault points; tallyd refuses TALLY_DEBUG_STEP")
    return 0


if __name__ == "__main__":
    sys.exit(main())
