#!/usr/bin/env python3
"""Checks that code has no notes to self and no names that the project has replaced.

Work that is left to do belongs in docs/roadmap.md. docs/glossary.md has the terms in place of the replaced names.

usage: check_words.py [--root FOLDER]
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

# The words are split, so that this file passes its own check.
WORDS = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
_WORD = re.compile(r"\b(" + "|".join(WORDS) + r")\b")

# Parts of C++ names that the project has replaced, and the terms in their place.
GONE = {
    "Asker": "Poller",
    "Branch": "ChildNode",
    "Courtesy": "YieldPolicy",
    "Errand": "Task",
    "Forming": "JobInstance",
    "Grain": "TileSizing",
    "HelperThreads": "ThreadPool",
    "Letter": "TreeMessage",
    "Neighbour": "RemoteShard",
    "Patience": "Timeout, or CancelToken",
    "PlanWord": "PlanUpdate",
    "Standing": "CoordinatorStatus",
    "Telling": "Notification",
    "Uplink": "ParentConnection",
}
# Matches at the begin of a word of CamelCase, and not inside a longer word: "Branches" is the plural.
_GONE = re.compile(r"(?<![A-Z])(" + "|".join(GONE) + r")(?![a-rt-z])")

# Words that no C++ name has as one of its words, and the terms in their place.
IN_NO_NAME = {
    "hear hears heard": "receive, poll or handle",
    "lane lanes": "shard, index or queue",
    "say says said saying": "send, report or message",
    "slot slots": "buffer, record, entry or index",
    "tell tells told telling": "notify, send or report",
}
_FORMS = {form: terms for forms, terms in IN_NO_NAME.items() for form in forms.split()}
_OLD = re.compile(r"(?<![A-Za-z0-9])(" + "|".join(_FORMS) + r")(?![A-Za-z0-9])|("
                  + "|".join(form.capitalize() for form in _FORMS) + r")(?![a-z])")
# Names that stay: a key of the configuration, and the lanes of a vector.
_KEPT = {"": re.compile(r"\bmax_slot_bytes\b"), "summation/": re.compile(r"\b(lanes?_?|kSquareLanes)\b")}
# Strings, characters and comments.
_NO_CODE = re.compile(r'''R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)'|//[^\n]*|/\*.*?\*/''', re.DOTALL)


def find_old_words(file: str, text: str) -> list[str]:
    code = _NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for folder, kept in _KEPT.items():
        code = kept.sub("", code) if file.startswith(folder) else code
    return [f"{file}:{number}: {found[0]} in a name: write {_FORMS[found[0].lower()]}: {line.strip()}"
            for number, line in enumerate(code.split("\n"), 1) if (found := _OLD.search(line))]


def check(root: Path) -> tuple[int, list[str]]:
    """Returns (number of files, problems)."""
    suffixes = sources.CPP + sources.PYTHON + (".sh", "meson.build", ".cu", ".cuh")
    files = sorted({*sources.list_files(root, suffixes), *sources.scripts(root)})
    problems = []
    for file in files:
        text = (root / file).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            if _WORD.search(line):
                problems.append(f"{file}:{number}: {line.strip()}")
            if file.endswith(sources.CPP) and (gone := _GONE.search(line)):
                problems.append(f"{file}:{number}: {gone[1]} is now {GONE[gone[1]]}: {line.strip()}")
        if file.endswith(sources.CPP):
            problems += find_old_words(file, text)
    return len(files), problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    count, problems = check(parser.parse_args().root)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"words: {count} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
