#!/usr/bin/env python3
"""Fails when libtally exports a symbol that is not of its C ABI, or lacks a symbol that tally.h declares.

Also fails when libtally is linked to a library of a network. libtally opens those at run time, so that programs can
load it on machines without them.

usage: check_symbols.py LIBRARY true|false

The second argument says whether the library must have fault points (TALLY_DEBUG_STEP, base/debug_steps.h). The build
for tests has them, and a package must not have them."""
import pathlib
import re
import subprocess
import sys

HEADER = pathlib.Path(__file__).resolve().parents[2] / "client/include/tally/tally.h"
NETWORKS = ("libibverbs", "librdmacm", "libfabric", "libmlx", "libefa")


def exported(library: str) -> set[str]:
    """Returns the defined dynamic symbols of a shared library, without versions and version names."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                             capture_output=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def networks(library: str) -> list[str]:
    """Returns the libraries that the library needs and must not need."""
    listing = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True, text=True,
                             capture_output=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listing)
    if not needed:
        sys.exit(f"{library}: readelf shows no library that it needs")
    return [name for name in needed if name.startswith(NETWORKS)]


def has_fault_points(library: str) -> bool:
    """Whether the library contains the names of the steps."""
    return b"client.before-notice" in pathlib.Path(library).read_bytes()


def declared(header: pathlib.Path) -> set[str]:
    """Returns the functions that the header marks with TALLY_API."""
    return set(re.findall(r"TALLY_API\s[^;(]*?\b(tally_\w+)\(", header.read_text()))


def main() -> int:
    got, wanted = exported(sys.argv[1]), declared(HEADER)
    for name in sorted(got - wanted):
        print(f"{sys.argv[1]}: exports {name}, which tally.h does not declare")
    for name in sorted(wanted - got):
        print(f"{sys.argv[1]}: lacks {name}, which tally.h declares")
    linked = networks(sys.argv[1])
    for name in linked:
        print(f"{sys.argv[1]}: is linked to {name}, which is to be opened at run time")
    wanted_points, points = sys.argv[2] == "true", has_fault_points(sys.argv[1])
    if points != wanted_points:
        print(f"{sys.argv[1]}: has {'' if points else 'no '}fault points, and must have {'them' if wanted_points else 'none'}")
    print(f"symbols: {len(got)} exported, {len(wanted)} declared")
    return 0 if got == wanted and got and not linked and points == wanted_points else 1


if __name__ == "__main__":
    sys.exit(main())
