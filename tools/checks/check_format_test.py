#!/usr/bin/env python3
"""check_format.py finds files with another layout, and rewrites them."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_format  # noqa: E402
from lib import planted  # noqa: E402


@unittest.skipIf(check_format.find_tool() is None, "clang-format is not installed")
class Format(planted.PlantedTest):
    def test_finds_and_mends(self):
        self.plant_rules(".clang-format")
        self.plant("base/a.cc", "int  x ;\n")
        tool = check_format.find_tool()
        count, complaint = check_format.check(self.root, tool)
        self.assertEqual(count, 1)
        self.assertIn("base/a.cc:1", complaint)
        check_format.check(self.root, tool, fix=True)
        self.assertEqual((self.root / "base/a.cc").read_text(), "int x;\n")
        self.assertEqual(check_format.check(self.root, tool), (1, ""))


if __name__ == "__main__":
    planted.main()
