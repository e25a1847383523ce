#!/usr/bin/env python3
"""Makes the Python package tally from a bundle, for the Python and the PyTorch that run this script.

usage: python3 BUNDLE/python/build_modules.py FOLDER

`tools/bundle --python` packs this script and what it compiles. It needs a C++ compiler ($CXX, or else c++), the headers
of Python and a PyTorch 2. Neither Meson nor other packages of Tally's build are needed. Afterwards

    PYTHONPATH=FOLDER python3 -m torch.distributed.run --nproc-per-node 2 training.py

finds tally, which finds the tallyd of the bundle.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PART = Path(__file__).resolve().parent  # BUNDLE/python
SOURCES = PART / "sources"
OF_MODULES = SOURCES / "integrations/python/src"
PACKAGE = SOURCES / "integrations/python/tally"
# As in the build by Meson. PyTorch's headers do not compile without warnings.
FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-w",
         "-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=_torch"]


def run(command: list, **options) -> None:
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(str(word) for word in command)}: status {done.returncode}\n{done.stdout}")


def torch_facts() -> tuple[str, list[str], list[str]]:
    """Returns the version of PyTorch, and the folders of its headers and libraries. The headers have pybind11 too."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an earlier tally may be on PYTHONPATH
    try:
        import torch
        from torch.utils import cpp_extension
    except ImportError as error:
        sys.exit(f"{sys.executable} cannot import PyTorch ({error}): run this script with the Python of the training")
    if int(torch.__version__.split(".")[0]) < 2 or not torch._C._GLIBCXX_USE_CXX11_ABI:
        sys.exit(f"PyTorch {torch.__version__} does not work: install PyTorch 2 with the C++11 ABI")
    return torch.__version__, cpp_extension.include_paths(), cpp_extension.library_paths()


def python_headers() -> str:
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").is_file():
        sys.exit(f"{folder}/Python.h is missing: install the headers of this Python (python3-dev)")
    return folder


def write_units(place: Path, work: Path, most: int) -> list[Path]:
    """Writes at most `most` files that include all sources of a folder. Headers take most of the time, so few processors
    compile few files."""
    sources = sorted(place.glob("*.cc"))
    work.mkdir(parents=True)
    units = []
    for index in range(min(max(1, most), len(sources))):
        units.append(work / f"unit{index}.cc")
        units[-1].write_text("".join(f'#include "{source}"\n' for source in sources[index::max(1, most)]), encoding="utf-8")
    return units


def build(folder: Path, work: Path) -> str:
    """Compiles the modules into the package in `folder`. Returns the version of PyTorch."""
    version, headers, libraries = torch_facts()
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if shutil.which(compiler[0]) is None:
        sys.exit(f"{compiler[0]} is missing: install a C++ compiler, or name one in $CXX")
    foreign = [word for path in [*headers, python_headers(), str(PART / "include")] for word in ("-isystem", path)]
    compiling = [*compiler, *FLAGS, f"-I{SOURCES}", f"-I{SOURCES}/client/include", *foreign, "-c"]
    torch_links = [*(f"-L{path}" for path in libraries), "-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
    modules = {"_core": (OF_MODULES, []), "torch/_torch": (OF_MODULES / "torch", torch_links)}
    units = {module: write_units(place, work / module, os.cpu_count() // 2) for module, (place, _) in modules.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda unit: run([*compiling, unit, "-o", unit.with_suffix(".o")]), sum(units.values(), [])))
    for module, (_, links) in modules.items():
        # A module does not export the symbols of the library that it contains.
        run([*compiler, "-shared", *(unit.with_suffix(".o") for unit in units[module]),
             PART / "libtally_python.a", "-Wl,--exclude-libs,ALL", *links, "-ldl", "-pthread", "-s",
             "-o", folder / "tally" / f"{module}{sysconfig.get_config_var('EXT_SUFFIX')}"])
    return version


def write_package(folder: Path) -> None:
    for name in ("tally", "tally.dist-info"):
        shutil.copytree(PACKAGE.parent / name, folder / name, dirs_exist_ok=True)
    program = folder / "tally/bin/tallyd"  # tally looks there
    program.parent.mkdir(exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to(PART.parent / "bin/tallyd")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for PYTHONPATH; made if it does not exist")
    folder = parser.parse_args().folder.resolve()
    if not (PART / "libtally_python.a").is_file():
        sys.exit(f"{PART} is no part of a bundle: run tools/bundle --python, and this script from the bundle")
    folder.mkdir(parents=True, exist_ok=True)
    write_package(folder)
    with tempfile.TemporaryDirectory(prefix="tally-modules-") as work:
        version = build(folder, Path(work))
    template = (folder / "tally/torch/_built_for.py.in").read_text(encoding="utf-8")
    (folder / "tally/torch/_built_for.py").write_text(template.replace("@VERSION@", version), encoding="utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    run([sys.executable, "-c", "import tally, tally.torch"], env={**os.environ, "PYTHONPATH": path})
    print(f"{folder} has tally for PyTorch {version} and Python {sysconfig.get_python_version()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
