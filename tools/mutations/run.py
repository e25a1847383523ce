#!/usr/bin/env python3
"""Puts known faults into a copy of the product, one after the other, and checks that a test notices each.

usage: run.py [--check] [--only NAME]... [--keep DIR]

edits.toml lists the faults: an edit of one file, and the meson test that must fail with it. The copy is built
once without a fault, and all tests of the list must pass there; then each edit is made, its test is built and
run, and the edit is taken back. A fault whose test passes is an error, because that test does not test the behaviour.

Runs in tier soak ($TALLY_TEST_TIER) or with --only: a fault takes half a minute. With --check it builds nothing,
and only checks that each edit still fits its file.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from lib import sources  # noqa: E402

SKIPPED = 77
# Without parts that no listed test needs, and with the optimization of a build that is never measured.
OPTIONS = ["-Dpython=disabled", "-Doptimization=1"]
FIELDS = ("name", "file", "from", "to", "test")


class Unfit(Exception):
    """Why an entry of the list cannot be used."""


def load(path: Path) -> list[dict[str, str]]:
    edits = tomllib.loads(path.read_text(encoding="utf-8"))["edit"]
    names = [edit.get("name", "?") for edit in edits]
    for edit in edits:
        if sorted(edit) != sorted(FIELDS):
            raise Unfit(f"{edit.get('name', '?')}: an edit has {', '.join(FIELDS)}, and this one {', '.join(sorted(edit))}")
        if names.count(edit["name"]) > 1:
            raise Unfit(f"{edit['name']}: two edits have this name")
    return edits


def edited(text: str, edit: dict[str, str]) -> str:
    found = text.count(edit["from"])
    if found != 1:
        raise Unfit(f"{edit['name']}: {edit['file']} has {found} places that read {edit['from']!r}; the edit needs one")
    if edit["from"] == edit["to"]:
        raise Unfit(f"{edit['name']}: the edit changes nothing")
    return text.replace(edit["from"], edit["to"])


def check(root: Path, edits: list[dict[str, str]]) -> list[str]:
    """Returns the reasons why edits do not fit."""
    problems = []
    for edit in edits:
        try:
            edited((root / edit["file"]).read_text(encoding="utf-8"), edit)
        except (Unfit, OSError) as error:
            problems.append(str(error))
    return problems


class Copy:
    """The sources in a folder of their own, and a build of them."""

    def __init__(self, folder: Path):
        self.source, self.build = folder / "source", folder / "build"
        for name in sources.list_files(ROOT, ("",)):
            to = self.source / name
            if to.exists() and to.read_bytes() == (ROOT / name).read_bytes():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to)
        if not (self.build / "build.ninja").exists():
            self._run("meson", "setup", *OPTIONS, self.build, self.source)

    def _run(self, *command) -> None:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{ended.stdout[-4000:]}")

    def make(self, test: str) -> None:
        listed = subprocess.run([sys.executable, ROOT / "tools/lib/test_targets.py", self.build, "--test", test],
                                stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        if not listed:
            raise Unfit(f"no test is called {test}")
        self._run("ninja", "-C", self.build, *listed)

    def passes(self, test: str) -> bool:
        environment = {**os.environ, "TALLY_TEST_TIER": "default"}
        ended = subprocess.run(["meson", "test", "-C", self.build, "--no-rebuild", test], env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        return ended.returncode == 0


def notices(copy: Copy, edit: dict[str, str]) -> bool:
    file = copy.source / edit["file"]
    good = file.read_text(encoding="utf-8")
    file.write_text(edited(good, edit), encoding="utf-8")
    try:
        copy.make(edit["test"])
        return not copy.passes(edit["test"])
    finally:
        file.write_text(good, encoding="utf-8")


def run(edits: list[dict[str, str]], folder: Path) -> list[str]:
    """Returns the faults that no test noticed, and other problems."""
    copy, problems = Copy(folder), []
    for test in sorted({edit["test"] for edit in edits}):
        copy.make(test)
        if not copy.passes(test):
            problems.append(f"{test} fails without a fault")
    if problems:
        return problems
    for edit in edits:
        begun = time.monotonic()
        try:
            noticed = notices(copy, edit)
        except (RuntimeError, Unfit) as error:
            problems.append(f"{edit['name']}: {error}")
            continue
        print(f"{edit['name']}: {edit['test']} {'notices' if noticed else 'DOES NOT NOTICE'}, {time.monotonic() - begun:.0f} s",
              flush=True)
        if not noticed:
            problems.append(f"{edit['name']}: {edit['test']} passes with this fault in {edit['file']}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only whether each edit fits its file")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this fault")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy and build there, and use them again")
    arguments = parser.parse_args()
    try:
        edits = load(Path(__file__).with_name("edits.toml"))
    except (Unfit, tomllib.TOMLDecodeError) as error:
        print(error)
        return 1
    problems = check(ROOT, edits)
    unknown = set(arguments.only) - {edit["name"] for edit in edits}
    problems += [f"edits.toml has no edit {name}" for name in sorted(unknown)]
    if arguments.check or problems:
        print("\n".join(problems) or f"{len(edits)} edits fit")
        return 1 if problems else 0
    if not arguments.only and os.environ.get("TALLY_TEST_TIER") != "soak":
        print("runs in tier soak only: a fault takes half a minute")
        return SKIPPED
    chosen = [edit for edit in edits if not arguments.only or edit["name"] in arguments.only]
    if arguments.keep:
        problems = run(chosen, arguments.keep.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="tally-mutations-") as folder:
            problems = run(chosen, Path(folder))
    print("\n".join(problems) or f"{len(chosen)} faults, all noticed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
