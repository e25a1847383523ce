#!/usr/bin/env python3
"""Checks that no notes to self are left in code: what is left to do belongs in docs/roadmap.md.

usage: check_words.py [--root FOLDER]
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

# Spelt apart, so that this file passes its own check.
WORDS = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
_WORD = re.compile(r"\b(" + "|".join(WORDS) + r")\b")


def check(root: Path) -> tuple[int, list[str]]:
    """(files looked at, problems)"""
    suffixes = sources.CPP + sources.PYTHON + (".sh", "meson.build", ".cu", ".cuh")
    files = sorted({*sources.list_files(root, suffixes), *sources.scripts(root)})
    problems = []
    for file in files:
        text = (root / file).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            if _WORD.search(line):
                problems.append(f"{file}:{number}: {line.strip()}")
    return len(files), problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    count, problems = check(parser.parse_args().root)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"words: {count} files, {len(problems)} notes to self")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
