"""The compile commands of a build folder, and a cache of what passed a check."""

import hashlib
import json
import os
import re
import shlex
from pathlib import Path

# The files that meson writes to compile several sources as one (its option `unity`), and the paths in them.
_BATCH = re.compile(r"-unity\d+\.cpp$")
_IN_BATCH = re.compile(r"^#include<([^>\n]+)>$", re.MULTILINE)


class Command:
    """The command that compiles a source file or a batch of files, without the names of the file, its output and its
    dependency file. `sources` are the files of the repository that it compiles. `file` is the compiler's argument.
    Both are relative to root."""

    _WITH_VALUE = {"-o", "-MF", "-MQ", "-MT"}
    _ALONE = {"-c", "-MD", "-MMD", "-MP"}

    def __init__(self, entry: dict, root: Path):
        self.folder = entry["directory"]
        full = os.path.normpath(os.path.join(self.folder, entry["file"]))
        self.file = os.path.relpath(full, root)
        words = entry.get("arguments") or shlex.split(entry["command"])
        start = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
        self.compiler, self.flags, skip = words[:start], [], False
        for word in words[start:]:
            if skip:
                skip = False
            elif word in self._WITH_VALUE:
                skip = True
            elif word not in self._ALONE and word != entry["file"]:
                self.flags.append(word)
        self.sources = [self.file]
        if _BATCH.search(full):
            listed = _IN_BATCH.findall(Path(full).read_text(encoding="utf-8"))
            self.sources = [os.path.relpath(os.path.normpath(path), root) for path in listed]
        self.sources = [source for source in self.sources if not source.startswith("..")]

    @property
    def is_cpp(self) -> bool:
        return all(source.endswith(".cc") for source in self.sources)


def load(build: Path, root: Path) -> list[Command]:
    """Returns commands that together compile every file of the repository. Skips a command that adds no file."""
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        commands = [Command(entry, root) for entry in json.load(file)]
    found, seen = [], set()
    for command in sorted(commands, key=lambda c: min(c.sources, default="")):
        if not seen.issuperset(command.sources):
            seen.update(command.sources)
            found.append(command)
    return found


def nearest(commands: list[Command], file: str) -> Command | None:
    """Returns the command of the source that is nearest to `file`: same folder first, then a similar name."""
    def closeness(source: str) -> tuple:
        folders = os.path.commonprefix([Path(file).parent.parts, Path(source).parent.parts])
        same_folder = Path(file).parent == Path(source).parent
        stem = os.path.commonprefix([Path(file).stem, Path(source).stem])
        return (same_folder, len(folders), len(stem), not source.endswith("_test.cc"))
    candidates = [c for c in commands if c.is_cpp]
    return max(candidates, key=lambda c: max(map(closeness, c.sources)), default=None)


class Cache:
    """Remembers by content what passed, in a folder of the build. To delete the folder is harmless."""

    def __init__(self, folder: Path):
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def key(words: list[str], root: Path, files: list[str]) -> str:
        digest = hashlib.sha256("\0".join(words).encode())
        for file in files:
            digest.update(b"\0" + file.encode() + b"\0" + (root / file).read_bytes())
        return digest.hexdigest()

    def has(self, key: str) -> bool:
        return (self._folder / key).exists()

    def add(self, key: str) -> None:
        (self._folder / key).touch()


def tool_identity(name: str) -> str:
    """Returns a text that changes when the tool is upgraded."""
    try:
        stat = os.stat(name)
        return f"{os.path.realpath(name)} {stat.st_size} {stat.st_mtime_ns}"
    except OSError:
        return name
