#!/usr/bin/env python3
"""Prints the targets of ninja that the tests of some suites need.

usage: test_targets.py BUILD [--suite NAME]... [--no-suite NAME]... [--test NAME]    as `meson test` has them
"""

import argparse
import json
import os
from pathlib import Path


def wanted(test: dict, suites: set, without: set) -> bool:
    of_test = {name.rpartition(":")[2] for name in test["suite"]}
    return of_test.isdisjoint(without) and (not suites or not of_test.isdisjoint(suites))


def targets(build: Path, suites: set, without: set, name: str | None = None) -> list[str]:
    """Returns the files of these targets, relative to the build folder."""
    def load(what: str) -> list[dict]:
        return json.loads((build / "meson-info" / f"intro-{what}.json").read_text(encoding="utf-8"))

    needed = {target for test in load("tests") if wanted(test, suites, without) and name in (None, test["name"])
              for target in test["depends"]}
    return sorted(os.path.relpath(file, build) for target in load("targets") if target["id"] in needed
                  for file in target["filename"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--no-suite", action="append", default=[])
    parser.add_argument("--test", help="only this one")
    arguments = parser.parse_args()
    print(*targets(arguments.build.resolve(), set(arguments.suite), set(arguments.no_suite), arguments.test), sep="\n")


if __name__ == "__main__":
    main()
