#!/usr/bin/env python3
"""Checks names with clang-tidy (the rules: .clang-tidy). Exits 77 where it is not installed.

usage: check_naming.py --build FOLDER [--root FOLDER] [FILE...]

Needs a configured build folder. The folder keeps a record of each source that passed, which holds until the source,
the files that it includes, its flags, or the rules change. With FILEs the check reads only these sources (paths from
the root), and the sources that are compiled in one batch with them.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import compile_commands, sources  # noqa: E402

NAMES = ("clang-tidy-14", "clang-tidy")
RULES = ".clang-tidy"

_DIAGNOSTIC = re.compile(r"^(?:(?P<place>[^\s:]+:\d+:\d+): )?(?:error|warning): ", re.MULTILINE)


def find_tool() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def diagnostics(output: str) -> list[str]:
    """Returns the findings of clang-tidy, each with its context. Leaves out findings without a place: names that
    clang-tidy makes up itself, such as the type of an `auto` parameter, even in a foreign header."""
    found, matches = [], list(_DIAGNOSTIC.finditer(output))
    for match, following in zip(matches, [*matches[1:], None]):
        text = output[match.start():following.start() if following else None].strip()
        if match["place"] or "[readability-identifier-naming" not in text:
            found.append(text)
    return found


def check_source(root: Path, build: Path, tool: str, command: compile_commands.Command,
                 graph: sources.IncludeGraph, cache: compile_commands.Cache) -> list[str]:
    """Returns the findings in the sources of the command and in the headers that they include."""
    words = [compile_commands.tool_identity(tool), *command.flags]
    read = set().union(*map(graph.closure, command.sources))
    key = cache.key(words, root, [RULES, *sorted(read)])
    if cache.has(key):
        return []
    # -w: the compilers report warnings, and a build for g++ has flags that clang does not know.
    result = subprocess.run(
        [tool, "--quiet", f"--config-file={root / RULES}", "-p", str(build), "--extra-arg=-w",
         str(root / command.file)], capture_output=True, text=True, cwd=root)
    found = diagnostics(result.stdout)
    if result.returncode < 0 or (result.returncode and not result.stdout.strip()):
        found.append(f"{command.file}: clang-tidy failed: {result.stderr.strip()}")
    if not found:
        cache.add(key)
    return found


def check(root: Path, build: Path, tool: str, only: list[str]) -> tuple[int, list[str]]:
    """Returns (number of sources, problems)."""
    commands = [c for c in compile_commands.load(build, root)
                if not only or not set(only).isdisjoint(c.sources)]
    graph = sources.IncludeGraph(root)
    cache = compile_commands.Cache(build / "checked-names")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(
            lambda c: check_source(root, build, tool, c, graph, cache), commands)
        # Many sources include a header. Its findings are reported once.
        count = sum(len(c.sources) for c in commands)
        return count, list(dict.fromkeys(p for problems in found for p in problems))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    tool = find_tool()
    if tool is None:
        print("naming: clang-tidy is not installed (tools/setup --dev)")
        return 77
    count, problems = check(arguments.root.resolve(), arguments.build.resolve(), tool,
                            arguments.files)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"naming: {count} sources, {len(problems)} problems")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
