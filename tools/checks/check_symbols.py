#!/usr/bin/env python3
"""Fails when libtally exports a symbol that is not of its C ABI, lacks one that tally.h declares, or is linked to a
library of a network: those are opened at run time, where they are, so that programs load libtally where they are not."""
import pathlib
import re
import subprocess
import sys

HEADER = pathlib.Path(__file__).resolve().parents[2] / "client/include/tally/tally.h"
NETWORKS = ("libibverbs", "librdmacm", "libfabric", "libmlx", "libefa")


def exported(library: str) -> set[str]:
    """The defined dynamic symbols of a shared library, without versions and version names."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                             capture_output=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def networks(library: str) -> list[str]:
    """Libraries that it needs, and may not."""
    listing = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True, text=True,
                             capture_output=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listing)
    if not needed:
        sys.exit(f"{library}: readelf shows no library that it needs")
    return [name for name in needed if name.startswith(NETWORKS)]


def declared(header: pathlib.Path) -> set[str]:
    """The functions that the header marks TALLY_API."""
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
    print(f"symbols: {len(got)} exported, {len(wanted)} declared")
    return 0 if got == wanted and got and not linked else 1


if __name__ == "__main__":
    sys.exit(main())
