"""Small trees with planted faults, for the tests of the checks."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


class PlantedTest(unittest.TestCase):
    """Each test plants files in a folder of its own: self.root."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tally-check-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def plant(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def plant_rules(self, *names: str) -> None:
        """Copies files such as .clang-format from the repository."""
        for name in names:
            self.plant(name, (ROOT / name).read_text(encoding="utf-8"))

    def plant_compile_commands(self, *files: str, flags: str = "-std=c++20 -Wall -Werror") -> Path:
        """Makes a build folder that compiles these sources."""
        build = self.root / "build"
        entries = [{"directory": str(build), "file": f"../{file}",
                    "command": f"c++ -I.. {flags} -MD -MF x.d -o x.o -c ../{file}"}
                   for file in files]
        self.plant("build/compile_commands.json", json.dumps(entries))
        return build

    def plant_batch(self, *files: str) -> str:
        """Writes the file with which meson compiles these sources as one. Returns its path from the root."""
        batch = "build/all.p/all-unity0.cpp"
        self.plant(batch, "\n".join(f"#include<{self.root}/build/../{file}>" for file in files))
        return batch


def main() -> None:
    """Runs the tests of the calling script; exits with 77 when none of them could run."""
    program = unittest.main(module="__main__", exit=False)
    result = program.result
    if result.skipped and len(result.skipped) == result.testsRun:
        print(result.skipped[0][1])
        sys.exit(SKIPPED)
    sys.exit(0 if result.wasSuccessful() else 1)
