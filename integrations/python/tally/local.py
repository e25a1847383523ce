"""A summation node of this machine's own, for as long as somebody uses it.

Where no address is given, ranks on one host share a `tallyd` that one of them starts. It ends by
itself a few seconds after the last session, however that session ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tally._error import Error

IDLE_SECONDS = 5
START_SECONDS = 30


def tallyd_program() -> str:
    """Where tallyd is: $TALLYD, beside this package (build tree, wheel), or on PATH."""
    named = os.environ.get("TALLYD")
    if named:
        return named
    package = Path(__file__).resolve().parent
    for candidate in (package.parents[2] / "control/tallyd",  # the build tree
                      package / "bin/tallyd", Path(sys.prefix) / "bin/tallyd"):
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    found = shutil.which("tallyd")
    if found:
        return found
    raise Error("tallyd is not on PATH: install Tally, or say where it is in $TALLYD, or name a "
                "running node in $TALLY_ADDRESS", "unavailable")


def start_node() -> str:
    """Starts a node with a socket of its own and returns its address ("unix:/path").

    It ends IDLE_SECONDS after the last session has ended, or when none comes; its directory goes
    with it."""
    directory = tempfile.mkdtemp(prefix="tally-local-", dir=os.environ.get("XDG_RUNTIME_DIR"))
    address = f"unix:{directory}/node.sock"
    reader, writer = os.pipe()
    # In a session of its own: our terminal's Ctrl-C is not meant for it. The shell takes the
    # directory away; a node that ended badly by itself leaves its log there.
    script = '"$@" 2>"$0/log"; case $? in 0 | 137) rm -rf "$0" ;; esac'
    command = [tallyd_program(), "--listen", address, "--exit-when-idle", str(IDLE_SECONDS),
               "--ready-fd", str(writer), "--log-level", "warning"]
    try:
        subprocess.Popen(["/bin/sh", "-c", script, directory, *command], pass_fds=[writer],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True, cwd="/")
        os.close(writer)
        writer = -1
        if _read_with_deadline(reader, START_SECONDS) != b"ready\n":
            log = Path(directory, "log")
            said = log.read_text(errors="replace").strip() if log.exists() else ""
            shutil.rmtree(directory, ignore_errors=True)
            raise Error(f"tallyd did not start: {said or 'it said nothing'}", "unavailable")
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    return address


def _read_with_deadline(descriptor: int, seconds: float) -> bytes:
    import select
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, 6) if ready else b""
