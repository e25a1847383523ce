#!/usr/bin/env python3
"""Fails when libtally exports a symbol that is not of its C ABI, or lacks one that tally.h declares."""
import pathlib
import re
import subprocess
import sys

HEADER = pathlib.Path(__file__).resolve().parents[2] / "client/include/tally/tally.h"


def exported(library: str) -> set[str]:
    """The defined dynamic symbols of a shared library, without versions and version names."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                             capture_output=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def declared(header: pathlib.Path) -> set[str]:
    """The functions that the header marks TALLY_API."""
    return set(re.findall(r"TALLY_API\s[^;(]*?\b(tally_\w+)\(", header.read_text()))


def main() -> int:
    got, wanted = exported(sys.argv[1]), declared(HEADER)
    for name in sorted(got - wanted):
        print(f"{sys.argv[1]}: exports {name}, which tally.h does not declare")
    for name in sorted(wanted - got):
        print(f"{sys.argv[1]}: lacks {name}, which tally.h declares")
    print(f"symbols: {len(got)} exported, {len(wanted)} declared")
    return 0 if got == wanted and got else 1


if __name__ == "__main__":
    sys.exit(main())
