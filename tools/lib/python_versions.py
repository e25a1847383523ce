"""Prints the versions of the packages that a build of the Python module depends on, in one line.

usage: PYTHON python_versions.py        PYTHON is the interpreter of the module (tools/lib/interpreter)
"""

import importlib.metadata


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


print(*(f"{package} {version(package)}" for package in ("numpy", "torch", "jax")), sep=", ")
