"""A Debian with nothing installed, in which a command can be run: what a newcomer has.

The base system is made once by debootstrap, from the archive that this machine's apt uses, and kept in
$TALLY_DEBIAN_CACHE, or tally/debian below $XDG_CACHE_HOME or ~/.cache. Beside it stand the packages that were
downloaded and the compiler's cache, which all such machines share: what they install and compile is the same. pip finds
its packages where this machine's does.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "bookworm"
SOURCES = "/tally"  # of the machine, where the repository lies

# As root in namespaces of its own, so that all it mounts and starts ends with it.
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
mount -t tmpfs tmpfs "$1/run"
mount --bind "$2/packages" "$1/var/cache/apt/archives"
mkdir -p "$1/ccache"
mount --bind "$2/ccache" "$1/ccache"
root=$1 folder=$3 command=$4
shift 4
while [[ "$1" != -- ]]; do
  mkdir -p "$root$1"
  mount --bind "$1" "$root$1"
  shift
done
shift
exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb CCACHE_DIR=/ccache "$@" \\
  PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
  sh -c 'cd "$0" && exec "$@"' "$folder" bash -c "$command"
"""


class Missing(Exception):
    """Why there can be no such machine here."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("TALLY_DEBIAN_CACHE") or f"{base}/tally/debian").expanduser()


def archive() -> str:
    """Where this machine's apt finds RELEASE."""
    if shutil.which("apt-get") is None:
        raise Missing("needs apt-get: its settings say where Debian is")
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)"],
                            capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        codename, component, address = line.split(" ", 2)
        if (codename, component) == (RELEASE, "main"):
            return address
    raise Missing(f"needs an archive of Debian {RELEASE} in apt's settings")


def base_system() -> Path:
    """The folder with the base system; made where it is not there yet."""
    if os.geteuid() != 0:
        raise Missing("needs root")
    for program in ("debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            raise Missing(f"needs {program}: run as root: apt-get install debootstrap")
    base = cache() / RELEASE
    for folder in ("packages/partial", "ccache"):
        (cache() / folder).mkdir(parents=True, exist_ok=True)
    if base.is_dir():
        return base
    with tempfile.TemporaryDirectory(dir=cache(), prefix="making.") as folder:
        made = Path(folder) / RELEASE
        # The compiler's cache is no part of what a newcomer has; it only saves time.
        result = subprocess.run(["debootstrap", "--variant=minbase", "--include=ccache", RELEASE, made, archive()],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, check=False)
        if result.returncode != 0:
            raise Missing("debootstrap could not make a Debian: " + result.stdout.strip().split("\n")[-1])
        # Packages stay for the next machine.
        for setting in (made / "etc/apt/apt.conf.d").glob("docker-clean"):
            setting.unlink()
        made.rename(base)
    return base


def pip_variables() -> list[str]:
    """Where this machine's pip finds packages, as NAME=VALUE."""
    names = re.compile("PIP_.*|(https?|no)_proxy|SSL_CERT_FILE", re.IGNORECASE)
    return [f"{name}={value}" for name, value in os.environ.items() if names.fullmatch(name)]


def pip_files() -> list[Path]:
    """pip's settings, what they name, and the authorities that this machine trusts besides Debian's."""
    settings = [Path("/etc/pip.conf"), Path("~/.config/pip/pip.conf").expanduser()]
    texts = [file.read_text(encoding="utf-8") for file in settings if file.is_file()] + pip_variables()
    named = [Path(value) for text in texts for value in re.findall(r"(?<![\w/])/[\w./-]+|(?<=file://)/[\w./-]+", text)]
    # The pages of an index in a folder link to files beside it.
    named = [file.parent if file.name == "simple" else file for file in named]
    found = [*settings, *named, Path("/usr/local/share/ca-certificates")]
    return [file for file in found if len(file.parts) > 2 and file.exists()]


class Debian:
    """One such machine, gone at the end of `with`."""

    def __enter__(self):
        base = base_system()
        self._folder = tempfile.TemporaryDirectory(dir=cache(), prefix="machine.")
        self._root = Path(self._folder.name) / "root"
        try:
            subprocess.run(["cp", "-a", "--reflink=auto", base, self._root], check=True)
            shutil.copy("/etc/resolv.conf", self._root / "etc/resolv.conf")
            # As Debian's installer writes it.
            (self._root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {socket.gethostname()}\n")
            self._copy_sources()
            for file in pip_files():
                if file.is_file():
                    (self._root / file.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, self._root / file.relative_to("/"))
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def _copy_sources(self) -> None:
        """What git tracks, and what it would if it were added: a fresh clone."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-c", "-o", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.split("\0")
        for name in listed:
            if not (ROOT / name).is_file():
                continue
            target = self._root / SOURCES[1:] / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)

    def run(self, command: str) -> tuple[int, str]:
        """(exit status, output); shown too, as it comes."""
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "bash", "-c", ENTER, "enter",
             self._root, cache(), SOURCES, command,
             *(file for file in pip_files() if file.is_dir()), "--", *pip_variables()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        lines = []
        for line in process.stdout:
            lines.append(line)
            sys.stdout.write("  | " + line)
            sys.stdout.flush()
        return process.wait(), "".join(lines)
