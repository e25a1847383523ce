"""The files of this repository, and the includes between them."""

import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path

CPP = (".h", ".cc", ".c")
PYTHON = (".py",)
BUILD_FOLDER = re.compile(r"(build|out-)")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def list_files(root: Path, suffixes: tuple[str, ...]) -> list[str]:
    """Returns paths relative to root: the files that git tracks, and the untracked files that it does not ignore."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "-c", "-o", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        listed = _walk(root)
    return sorted(p for p in set(listed) if p.endswith(suffixes) and (root / p).is_file())


def _walk(root: Path) -> list[str]:
    found = []
    for folder, folders, names in os.walk(root):
        top = Path(folder) == root
        folders[:] = [f for f in folders
                      if not f.startswith(".") and not (top and BUILD_FOLDER.match(f))]
        found += [str((Path(folder) / name).relative_to(root)) for name in names]
    return found


def scripts(root: Path) -> list[str]:
    """Returns the shell scripts: the files under tools/ and .ci/ without a suffix."""
    names = list_files(root, ("",))
    return [n for n in names if n.startswith(("tools/", ".ci/")) and "." not in Path(n).name]


def includes(text: str) -> list[tuple[int, str, bool]]:
    """Returns (line, path, whether it is in angle brackets) of every #include."""
    found = []
    for match in _INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append((line, match[1] or match[2], match[1] is None))
    return found


class IncludeGraph:
    """The files of this repository that a file includes, directly and through others."""

    def __init__(self, root: Path, search: tuple[str, ...] = (".", "client/include")):
        self._root = root
        self._search = search

    @lru_cache(maxsize=None)
    def resolve(self, path: str, beside: str) -> str | None:
        """Returns the file of the repository that an include of `path` in `beside` names; None for a foreign file."""
        for folder in (*self._search, str(Path(beside).parent)):
            candidate = os.path.normpath(os.path.join(folder, path))
            if (self._root / candidate).is_file():
                return candidate
        return None

    @lru_cache(maxsize=None)
    def direct(self, file: str) -> tuple[str, ...]:
        text = (self._root / file).read_text(encoding="utf-8", errors="replace")
        found = (self.resolve(path, file) for _, path, _ in includes(text))
        return tuple(f for f in found if f is not None)

    def closure(self, file: str) -> list[str]:
        """Returns the file and all files of the repository that it includes, directly or not, sorted."""
        seen, pending = {file}, [file]
        while pending:
            for found in self.direct(pending.pop()):
                if found not in seen:
                    seen.add(found)
                    pending.append(found)
        return sorted(seen)
