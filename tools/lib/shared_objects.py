"""Programs and shared libraries (ELF): what they need, and how they find it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Libraries that belong to the C library. They must be those of the machine's own dynamic linker.
_OF_C_LIBRARY = re.compile(r"(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|nss_\w+|thread_db))\.so\.\d+")
_LIBRARY = re.compile(r"^\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_VERSION = re.compile(r"Name: GLIBC_(\d+)\.(\d+)")


class Missing(Exception):
    """Something that is needed is not on this machine. The text has the remedy."""


def run(*command: str | Path) -> str:
    """Returns the output of a program of this machine, whose messages are in English."""
    done = subprocess.run([str(word) for word in command], env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Missing(f"{' '.join(str(word) for word in command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def require(*programs: str) -> None:
    for name in programs:
        if shutil.which(name) is None:
            raise Missing(f"{name} is missing: run tools/setup --python")


def is_elf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def is_of_c_library(name: str) -> bool:
    return _OF_C_LIBRARY.fullmatch(name) is not None


def libraries(file: Path) -> dict[str, Path]:
    """Returns where this machine finds the libraries that a program or library is linked to, directly and through
    others: {name: path}. Those of the C library are left out."""
    found = {}
    for name, path in _LIBRARY.findall(run("ldd", file)):
        if is_of_c_library(name):
            continue
        if path == "not found":
            raise Missing(f"{file} needs {name}, which is not on this machine: install its package")
        found[name] = Path(path)
    return found


def machine(file: Path) -> bytes:
    """Returns the fields of the header that say for which kind of processor the file is."""
    with file.open("rb") as opened:
        header = opened.read(20)
    return header[4:6] + header[18:20]


def installed_library(name: str) -> Path | None:
    """Returns where a program of this machine would find a library that it opens by this name."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"  # an ordinary user's PATH may be without it
    own = machine(Path(sys.executable))
    for line in run(ldconfig, "-p").splitlines():
        words = line.split()
        if words and words[0] == name and machine(Path(words[-1])) == own:
            return Path(words[-1])
    return None


def soname(file: Path) -> str:
    """Returns the name by which programs find a library."""
    match = re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", file))
    return match[1] if match else file.name


def needed_glibc(files: list[Path]) -> tuple[int, int]:
    """Returns the oldest glibc that has all functions of glibc that these files use."""
    versions = [(0, 0)]
    for file in files:
        versions += [(int(major), int(minor)) for major, minor in
                     _VERSION.findall(run("readelf", "--version-info", "--wide", file))]
    return max(versions)


def copy_stripped(source: Path, target: Path, rpath: str) -> None:
    """Copies a program or library without what only debuggers and linkers read. It then looks for libraries in `rpath`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    # In this order, because strip can damage what patchelf has moved.
    run("strip", "--strip-unneeded", target)
    run("patchelf", "--set-rpath", rpath, target)
