"""The compile commands of a build folder, and a cache of what was found to be good."""

import hashlib
import json
import os
import shlex
from pathlib import Path


class Command:
    """How one source file is compiled: without the file, its output and its dependency file."""

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

    @property
    def is_cpp(self) -> bool:
        return self.file.endswith(".cc")


def load(build: Path, root: Path) -> list[Command]:
    """Commands for the files of the repository, one per file."""
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        commands = [Command(entry, root) for entry in json.load(file)]
    by_file: dict[str, Command] = {}
    for command in commands:
        if not command.file.startswith(".."):
            by_file.setdefault(command.file, command)
    return [by_file[file] for file in sorted(by_file)]


def nearest(commands: list[Command], file: str) -> Command | None:
    """The command of the source that stands nearest to `file`: same folder first, then same name."""
    def closeness(command: Command) -> tuple:
        folders = os.path.commonprefix(
            [Path(file).parent.parts, Path(command.file).parent.parts])
        same_folder = Path(file).parent == Path(command.file).parent
        stem = os.path.commonprefix([Path(file).stem, Path(command.file).stem])
        return (same_folder, len(folders), len(stem), not command.file.endswith("_test.cc"))
    candidates = [c for c in commands if c.is_cpp]
    return max(candidates, key=closeness, default=None)


class Cache:
    """Remembers by content what passed, in a folder of the build; forgetting is harmless."""

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
    """Changes when the tool is upgraded."""
    try:
        stat = os.stat(name)
        return f"{os.path.realpath(name)} {stat.st_size} {stat.st_mtime_ns}"
    except OSError:
        return name
