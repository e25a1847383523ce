"""A summation node on this machine, for as long as ranks use it.

Without an address, the ranks of a training on one host share a `tallyd` that the first of
them starts. The node ends by itself a few seconds after the last session, however that session ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, Optional

from tally._core import Session
from tally._error import Error

IDLE_SECONDS = 5
START_SECONDS = 30

# Runs the node, and removes the node's directory after the node has ended. It also removes the link, unless the
# link names another node by then. It is no child of this process, so it outlives it. When the node failed, the
# directory stays, because it has the log.
_KEEPER = """{
"$@" 2>"$0/log"
case $? in 0 | 137) rm -rf "$0" ;; *) exit ;; esac
flock "${LINK%/*}" sh -c '[ "$(readlink "$1")" = "$0" ] && rm "$1"' "$0" "$LINK"
} &"""


def connect(*, job: str = "default", rank: Optional[int] = None, ranks: Optional[int] = None,
            address: Optional[str] = None, token: Optional[str] = None, **options) -> Session:
    """Opens the session of this process, as a launcher describes it.

    rank, ranks: default $RANK and $WORLD_SIZE, as torchrun sets them; without these 0 and 1.
    address, token: default $TALLY_ADDRESS and $TALLY_TOKEN. Without an address the ranks of this training
    share a node of their own on this machine. options: those of Session."""
    return Session(**session_options(job=job, rank=rank, ranks=ranks, address=address, token=token), **options)


def session_options(*, job: str, rank: Optional[int], ranks: Optional[int], address: Optional[str],
                    token: Optional[str]) -> dict:
    """Returns the arguments of a session, with what a launcher describes in place of None: see connect()."""
    rank = int(os.environ.get("RANK", 0)) if rank is None else rank
    ranks = int(os.environ.get("WORLD_SIZE", 1)) if ranks is None else ranks
    address = address or os.environ.get("TALLY_ADDRESS")
    if not address:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
        if here != ranks:
            raise Error(f"{here} of {ranks} ranks are on this machine: ranks on several machines "
                        "need $TALLY_ADDRESS", "unavailable")
        if ranks > 1 and "MASTER_PORT" not in os.environ:
            raise Error("without $MASTER_PORT the ranks of a training do not know each other: set "
                        "it, as launchers do, or $TALLY_ADDRESS", "unavailable")
        address = own_node()
    token = os.environ.get("TALLY_TOKEN", "") if token is None else token
    return {"address": address, "job": job, "token": token, "rank": rank, "ranks": ranks}


def tallyd_program() -> str:
    """Finds tallyd: $TALLYD, beside this package (build tree, wheel), or on PATH."""
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


def own_node(instead_of: Optional[str] = None) -> str:
    """Returns the address ("unix:/path") of the node that all processes of this user's training on this
    machine share. Starts the node when there is none.

    instead_of: an address that must not be used any more, although a process may still listen there.
    $MASTER_ADDR, $MASTER_PORT and $TORCHELASTIC_RUN_ID identify a training; without $MASTER_PORT it is this
    process alone. The node ends IDLE_SECONDS after its last session."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    names = [os.environ.get(key, "") for key in ("MASTER_ADDR", "MASTER_PORT",
                                                 "TORCHELASTIC_RUN_ID")]
    if not names[1]:
        names.append(f"process {os.getpid()}")
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
    link = f"{base}/tally-{os.geteuid()}-{digest}"
    with _locked(base):
        found = _node_behind(link)
        if found and found != instead_of:
            return found
        return _start(base, link)


def _node_behind(link: str) -> Optional[str]:
    """Returns the address of the running node that the link names, or None. Another user's link is an error."""
    try:
        about = os.lstat(link)
        if not stat.S_ISLNK(about.st_mode) or about.st_uid != os.geteuid():
            raise Error(f"{link}: made by somebody else; remove it", "refused")
        path = f"{os.readlink(link)}/node.sock"
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            probe.connect(path)
        return f"unix:{path}"
    except OSError:
        return None


def _start(base: str, link: str) -> str:
    program = tallyd_program()
    directory = tempfile.mkdtemp(prefix="tally-local-", dir=base)
    address = f"unix:{directory}/node.sock"
    reader, writer = os.pipe()
    command = [program, "--listen", address, "--exit-when-idle", str(IDLE_SECONDS),
               "--ready-fd", str(writer), "--log-level", "warning"]
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        os.symlink(directory, link)
        # In a process session of its own, because Ctrl-C at this terminal must not end the node.
        subprocess.run(["/bin/sh", "-c", _KEEPER, directory, *command], pass_fds=[writer],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                       stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
                       env={**os.environ, "LINK": link})
        os.close(writer)
        writer = -1
        if _read_with_deadline(reader, START_SECONDS) != b"ready\n":
            log = Path(directory, "log")
            output = log.read_text(errors="replace").strip() if log.exists() else ""
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
            raise Error(f"tallyd did not start: {output or 'it printed nothing'}", "unavailable")
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    return address


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Lets one process at a time start a node below this directory. The lock leaves no file behind."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        until = time.monotonic() + 2 * START_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Error(f"{directory}: somebody else has held its lock for "
                                f"{2 * START_SECONDS} seconds; set $XDG_RUNTIME_DIR to a directory "
                                "of your own", "unavailable") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _read_with_deadline(descriptor: int, seconds: float) -> bytes:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, 6) if ready else b""
