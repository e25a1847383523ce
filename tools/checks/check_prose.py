#!/usr/bin/env python3
"""Checks the prose of Markdown pages: lines are short enough to read and to compare, and some words are not used.

usage: check_prose.py [--root FOLDER]

Tables, code blocks and headings may be longer, and so may a line that is one long word, such as a link.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

WIDTH = 110
# The actor of a sentence is a noun: a node, a client, rank 3.
WORDS = ("whoever", "whomever", "somebody", "nobody", "everybody", "lest", "that which")
_WORD = re.compile(r"\b(" + "|".join(WORDS) + r")\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`")


def prose(text: str) -> list[tuple[int, str]]:
    """Returns (number, line) of each line that is no table, heading or code block."""
    found, in_code = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith(("|", "#")):
            found.append((number, line))
    return found


def check_file(text: str) -> list[tuple[int, str]]:
    """Returns (line, problem) of each problem."""
    problems = []
    for number, line in prose(text):
        if len(line) > WIDTH and " " in line.strip():
            problems.append((number, f"{len(line)} characters; a line has at most {WIDTH}"))
        if word := _WORD.search(_CODE.sub("", line)):
            problems.append((number, f'"{word[0]}": name the actor (the node, a client, rank 3)'))
    return problems


def check(root: Path) -> tuple[int, list[str]]:
    """Returns (number of pages, problems)."""
    files = sources.list_files(root, (".md",))
    return len(files), [f"{file}:{number}: {problem}" for file in files
                        for number, problem in check_file((root / file).read_text(encoding="utf-8"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    count, problems = check(parser.parse_args().root)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"prose: {count} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
