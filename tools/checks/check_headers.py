#!/usr/bin/env python3
"""Checks that headers compile alone, with the flags of a source beside them.

usage: check_headers.py --build FOLDER [--root FOLDER]

The check leaves out a header that its own source includes first, because the build that compiles each file by itself
(tools/build --clang) compiles that header alone already. The build folder keeps a record of each header that passed,
which holds until the header, the files that it includes, or its flags change.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import compile_commands, sources  # noqa: E402

# Headers for programs in C and in C++. They are compiled as both.
C_INTERFACE = "client/include/"


def languages(header: str) -> list[tuple[str, list[str]]]:
    found = [("c++", [])]
    if header.startswith(C_INTERFACE):
        found.append(("c", ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]))
    return found


def compile_alone(root: Path, header: str, command: compile_commands.Command,
                  language: str, own_flags: list[str]) -> str:
    """Returns the compiler's errors; empty when there are none."""
    compiler = command.compiler if language == "c++" else ["cc"]
    flags = command.flags if language == "c++" else own_flags
    # Compiles a file that includes the header, because the compiler warns about #pragma once in a main file.
    result = subprocess.run(
        [*compiler, *flags, "-I", str(root), "-x", language, "-fsyntax-only", "-"],
        input=f'#include "{root / header}"\n', text=True, capture_output=True, cwd=command.folder)
    return result.stderr if result.returncode else ""


def comes_first_in_its_own(root: Path, header: str, compiled: set[str]) -> bool:
    source = str(Path(header).with_suffix(".cc"))
    if source not in compiled:
        return False
    first = sources.includes((root / source).read_text(encoding="utf-8"))[:1]
    return [path for _, path, _ in first] == [header]


def check_header(root: Path, header: str, commands: list, graph: sources.IncludeGraph,
                 cache: compile_commands.Cache) -> list[str]:
    command = compile_commands.nearest(commands, header)
    problems = []
    for language, own_flags in languages(header):
        words = [*command.compiler, *command.flags, language, *own_flags]
        key = cache.key(words, root, graph.closure(header))
        if cache.has(key):
            continue
        complaint = compile_alone(root, header, command, language, own_flags)
        if complaint:
            problems.append(f"{header}: does not compile alone as {language}, with the flags of "
                            f"{command.file}:\n{complaint}")
        else:
            cache.add(key)
    return problems


def check(root: Path, build: Path) -> tuple[int, list[str]]:
    """Returns (number of headers, problems)."""
    commands = compile_commands.load(build, root)
    if not any(c.is_cpp for c in commands):
        return 0, [f"{build}: no C++ source of this project is compiled there"]
    compiled = {source for command in commands for source in command.sources}
    headers = [header for header in sources.list_files(root, (".h",))
               if not comes_first_in_its_own(root, header, compiled)]
    graph = sources.IncludeGraph(root)
    cache = compile_commands.Cache(build / "checked-headers")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda h: check_header(root, h, commands, graph, cache), headers)
        return len(headers), [problem for problems in found for problem in problems]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    count, problems = check(arguments.root.resolve(), arguments.build.resolve())
    print("\n".join(problems), end="\n" if problems else "")
    print(f"headers: {count} headers, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
