#!/usr/bin/env python3
"""Checks that files are short enough to read in one go, and that folders have few files. Warns about long functions.

usage: check_sizes.py [--root FOLDER]
"""

import argparse
import ast
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

MAX_FILE_LINES = 450      # fails
MAX_FUNCTION_LINES = 100  # warns
MAX_FOLDER_FILES = 30     # fails; tests beside their sources count
# Folders of the product. Tests, docs and tools are lists by nature.
PRODUCT = ("base", "summation", "dataplane", "net", "client", "gpu_bridge", "control", "perf", "integrations")

# In the project's format, the first line of a function is not indented deeper than a class member. The function ends
# with the first `}` at the same depth.
_BEGIN = re.compile(r"^( {0,3})(?!namespace|class|struct|enum|union|extern|if|for|while|switch|do\b|#)"
                    r"[A-Za-z_~].*")
_NAME = re.compile(r"([A-Za-z_~][\w:~]*)\s*\(")


def long_cpp_functions(text: str) -> list[tuple[int, str, int]]:
    """Returns (line, name, lines) of functions that are too long. It guesses by layout, and does not parse."""
    found, lines, at = [], text.split("\n"), 0
    while at < len(lines):
        begin = _BEGIN.match(lines[at])
        name = begin and _NAME.search(lines[at])
        if not name or ";" in lines[at]:
            at += 1
            continue
        close = begin[1] + "}"
        end = at
        while end < len(lines) and not lines[end].startswith(close):
            if lines[end].endswith(";") and lines[end].startswith(begin[1] + "    ") and not any(
                    "{" in line for line in lines[at:end + 1]):
                break  # a declaration over several lines
            end += 1
        if end < len(lines) and lines[end].startswith(close) and end - at + 1 > MAX_FUNCTION_LINES:
            found.append((at + 1, name[1], end - at + 1))
        at += 1
    return found


def long_python_functions(text: str) -> list[tuple[int, str, int]]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > MAX_FUNCTION_LINES:
                found.append((node.lineno, node.name, count))
    return found


def large_folders(root: Path) -> list[str]:
    files = [Path(file) for file in sources.list_files(root, ("",)) if file.split("/")[0] in PRODUCT]
    counts = Counter(file.parent for file in files)
    return [f"{folder}: {count} files, more than {MAX_FOLDER_FILES}: give each idea a folder of its own"
            for folder, count in sorted(counts.items()) if count > MAX_FOLDER_FILES]


def check(root: Path) -> tuple[int, list[str], list[str]]:
    """Returns (number of files, problems, warnings)."""
    problems, warnings = large_folders(root), []
    files = sources.list_files(root, sources.CPP + sources.PYTHON)
    for file in files:
        text = (root / file).read_text(encoding="utf-8", errors="replace")
        count = text.count("\n")
        if count > MAX_FILE_LINES:
            problems.append(f"{file}: {count} lines, more than {MAX_FILE_LINES}: cut it in two")
        long = long_python_functions if file.endswith(".py") else long_cpp_functions
        for line, name, length in long(text):
            warnings.append(f"{file}:{line}: warning: {name} has {length} lines, "
                            f"more than {MAX_FUNCTION_LINES}")
    return len(files), problems, warnings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    count, problems, warnings = check(parser.parse_args().root)
    for line in warnings + problems:
        print(line)
    print(f"sizes: {count} files, {len(problems)} too large, {len(warnings)} long functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
