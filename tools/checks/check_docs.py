#!/usr/bin/env python3
"""Checks that links between documents and paths in them lead to files, and that documents explain what the programs print.

docs/errors.md must have every status code, docs/metrics.md every counter and column, and some document every line of
the node's log.

usage: check_docs.py [--root FOLDER]
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

STATUS_HEADER = "base/status.h"
ERRORS = "docs/errors.md"
METRICS = "docs/metrics.md"
# The files that define counters and columns, and the pattern of a definition.
COLUMNS = {
    "dataplane/engine/counters.h": re.compile(r'CounterName\{"(\w+)"'),
    "control/cli/views.cc": re.compile(r'Column\{"\w+", "([^"]+)"'),
    "control/cli/top/render.cc": re.compile(r'Column\{"\w+", "([^"]+)"'),
    "control/cli/probe/command.cc": re.compile(r'Column\{"\w+", "([^"]+)"'),
    "perf/measure/report.cc": re.compile(r'^    \{"([^"]+)", "[^"]*", \d+, Column::', re.MULTILINE),
}

LOGGING = ("control/", "net/")  # the folders that write the log
_EVENT = re.compile(r'log::(?:debug|info|warning|error)\(\s*"([a-z-]+)"')
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"`((?:\w+/)+[a-z]\w*\.(?:h|cc|py|inc|toml|build))`")
_CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ENUMERATOR = re.compile(r"^\s*k(\w+) = (\d+),", re.MULTILINE)


def check_links(root: Path, file: str) -> list[str]:
    text = _CODE_BLOCK.sub("", (root / file).read_text(encoding="utf-8"))
    targets = [t for t in _LINK.findall(text) if "://" not in t and not t.startswith("mailto:")]
    return [f"{file}: the link to {target} leads nowhere" for target in dict.fromkeys(targets)
            if not (root / file).parent.joinpath(target).exists()]


def check_paths(root: Path, file: str) -> list[str]:
    """Source files in backticks, by their place in the repository."""
    paths = _PATH.findall(_CODE_BLOCK.sub("", (root / file).read_text(encoding="utf-8")))
    return [f"{file}: there is no {path}" for path in dict.fromkeys(paths) if not (root / path).exists()]


def words(enumerator: str) -> str:
    """Turns the rest of kNoCredit into "no credit"."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", enumerator).lower()


def check_statuses(root: Path) -> list[str]:
    header = root / STATUS_HEADER
    if not header.exists():
        return []
    text = (root / ERRORS).read_text(encoding="utf-8")
    return [f"{ERRORS}: no row `| {number} | {words(name)} |` for {STATUS_HEADER}: k{name}"
            for name, number in _ENUMERATOR.findall(header.read_text(encoding="utf-8"))
            if f"| {number} | {words(name)} |" not in text]


def check_columns(root: Path) -> list[str]:
    sources_there = {file: pattern for file, pattern in COLUMNS.items() if (root / file).exists()}
    if not sources_there:
        return []
    rows = [line for line in (root / METRICS).read_text(encoding="utf-8").split("\n")
            if line.startswith("|")]
    defined = {item.strip(" `") for row in rows for cell in row.split("|") for item in cell.split(",")}
    return [f"{METRICS}: no row for '{name}' of {file}" for file, pattern in sources_there.items()
            for name in pattern.findall((root / file).read_text(encoding="utf-8"))
            if name not in defined]


def check_events(root: Path, documents: list[str]) -> list[str]:
    text = "\n".join((root / file).read_text(encoding="utf-8") for file in documents)
    documented = set(re.findall(r"event=([a-z-]+)", text))
    return [f"no document has event={name}, which {file} logs" for file in sources.list_files(root, (".cc",))
            if file.startswith(LOGGING)
            for name in _EVENT.findall((root / file).read_text(encoding="utf-8")) if name not in documented]


def check(root: Path) -> tuple[int, list[str]]:
    """Returns (number of documents, problems)."""
    files = sources.list_files(root, (".md",))
    problems = [p for file in files for p in check_links(root, file) + check_paths(root, file)]
    return len(files), problems + check_statuses(root) + check_columns(root) + check_events(root, files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    count, problems = check(parser.parse_args().root)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"docs: {count} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
