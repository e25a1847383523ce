"""The part of a bundle from which integrations/python/build_modules.py makes the package tally on another machine.

    python/build_modules.py
    python/libtally_python.a    the client and what the modules share: C++ without Python, compiled already
    python/include/             headers of other projects
    python/sources/             the rest of the modules, at their places in the repository
"""

import re
import shutil
import subprocess
from pathlib import Path

from lib import shared_objects, sources
from lib.shared_objects import Missing

PACKAGE = "integrations/python/tally"
SOURCES = "integrations/python/src"
# Of the core module. The front end for PyTorch is a folder.
CORE = ("core_module.cc", "array.cc")
FOREIGN_HEADER = "dlpack/dlpack.h"


def module_sources(root: Path) -> list[str]:
    """Returns the sources of the modules that depend on Python or PyTorch, from the root of the repository."""
    of_torch = [name for name in sources.list_files(root, (".cc",)) if name.startswith(f"{SOURCES}/torch/")]
    return [f"{SOURCES}/{name}" for name in CORE] + [name for name in of_torch if not name.endswith("_test.cc")]


def with_headers(root: Path, files: list[str]) -> list[str]:
    """Returns the files and all headers of the repository that they include, directly or not."""
    graph = sources.IncludeGraph(root)
    return sorted({found for file in files for found in graph.closure(file)})


def package_files(root: Path) -> list[str]:
    """Returns the Python files of the package, without the front end for JAX."""
    listed = sources.list_files(root, (".py", ".pyi", ".in", "py.typed", "METADATA", "entry_points.txt"))
    return [name for name in listed
            if name.startswith((f"{PACKAGE}/", f"{PACKAGE}.dist-info/")) and not name.startswith(f"{PACKAGE}/jax/")]


def foreign_header() -> Path:
    """Returns where the compiler finds FOREIGN_HEADER."""
    try:
        listed = subprocess.run(["c++", "-E", "-M", "-x", "c++", "-"], input=f"#include <{FOREIGN_HEADER}>\n", text=True,
                                check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise Missing(f"{FOREIGN_HEADER} is missing: run tools/setup --python") from None
    return Path(re.search(rf"\S+/{FOREIGN_HEADER}", listed)[0])


def archives(build: Path) -> list[Path]:
    """Returns the static libraries that the core module of a build folder is linked from."""
    module = next((build / PACKAGE).glob("_core.*.so"), None)
    if module is None:
        raise Missing(f"{build} has no module tally: run tools/setup --python and tools/build")
    listed = shared_objects.run("ninja", "-C", build, "-t", "query", module.relative_to(build))
    return [build / name for name in re.findall(r"^\s+\| ([^/\s]\S*\.a)$", listed, re.MULTILINE)]


def join_archives(build: Path, target: Path) -> None:
    """Makes one library of those of the core module, which are thin archives: they have only the names of their objects."""
    objects = [line for archive in archives(build) for line in shared_objects.run("ar", "t", archive).splitlines()]
    target.unlink(missing_ok=True)
    # `q` adds each object, also where two have one name.
    shared_objects.run("ar", "qcsD", target, *objects)
    shared_objects.run("strip", "--strip-debug", target)


def pack(root: Path, build: Path, folder: Path) -> None:
    """Writes the part into `folder`, which exists."""
    header = folder / "include" / FOREIGN_HEADER
    header.parent.mkdir(parents=True)
    shutil.copyfile(foreign_header(), header)
    shutil.copy(root / "integrations/python/build_modules.py", folder)
    for name in with_headers(root, module_sources(root)) + package_files(root):
        target = folder / "sources" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
    join_archives(build, folder / "libtally_python.a")
