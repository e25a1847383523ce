#!/usr/bin/env python3
"""check_sizes.py finds long files and long functions."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_sizes  # noqa: E402
from lib import planted  # noqa: E402


class Sizes(planted.PlantedTest):
    def test_a_long_file_fails(self):
        self.plant("base/a.cc", "int a;\n" * check_sizes.MAX_FILE_LINES)
        self.assertEqual(check_sizes.check(self.root), (1, [], []))
        self.plant("base/b.h", "int a;\n" * (check_sizes.MAX_FILE_LINES + 1))
        _, problems, _ = check_sizes.check(self.root)
        self.assertEqual(len(problems), 1)
        self.assertIn("base/b.h: 451 lines", problems[0])

    def test_a_folder_with_too_many_files_fails(self):
        for i in range(check_sizes.MAX_FOLDER_FILES + 1):
            self.plant(f"net/rpc/a{i}.h", "")
            self.plant(f"tests/e2e/a{i}.h", "")
        _, problems, _ = check_sizes.check(self.root)
        self.assertEqual(problems, ["net/rpc: 31 files, more than 30: give each idea a folder of its own"])

    def test_long_functions_are_warned_about(self):
        body = "  step();\n" * check_sizes.MAX_FUNCTION_LINES
        self.plant("base/a.cc", f"int declared(int a,\n             int b);\n\n"
                                f"Outcome Shard::poll(int a,\n    int b) {{\n{body}}}\n\n"
                                f"void short_one() {{\n  step();\n}}\n")
        self.plant("base/b.py", "def long():\n" + "    step()\n" * 101)
        _, problems, warnings = check_sizes.check(self.root)
        self.assertEqual(problems, [])
        self.assertEqual(len(warnings), 2, warnings)
        self.assertIn("base/a.cc:4: warning: Shard::poll has 103 lines", warnings[0])
        self.assertIn("base/b.py:1: warning: long", warnings[1])


if __name__ == "__main__":
    planted.main()
