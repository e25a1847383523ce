#!/usr/bin/env python3
"""Checks the layout of C and C++ files with clang-format. Exits 77 where it is not installed.

usage: check_format.py [--root FOLDER] [--fix]

--fix rewrites the files instead.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

# Versions lay files out differently. Where several are installed, the version of Debian 12 decides.
NAMES = ("clang-format-14", "clang-format")


def find_tool() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def check(root: Path, tool: str, fix: bool = False) -> tuple[int, str]:
    """Returns (number of files, output of clang-format)."""
    files = sources.list_files(root, sources.CPP)
    if not files:
        return 0, ""
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    result = subprocess.run([tool, "--style=file", *mode, *files], cwd=root,
                            capture_output=True, text=True)
    return len(files), result.stderr if result.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--fix", action="store_true", help="rewrite the files")
    arguments = parser.parse_args()
    tool = find_tool()
    if tool is None:
        print("format: clang-format is not installed (tools/setup --dev)")
        return 77
    count, complaint = check(arguments.root, tool, arguments.fix)
    print(complaint, end="")
    print(f"format: {count} files" + (", mend with tools/checks/check_format.py --fix"
                                      if complaint else ", all well laid out"))
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
