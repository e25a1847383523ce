#!/usr/bin/env python3
"""check_naming.py finds names that break the rules of .clang-tidy."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_naming  # noqa: E402
from lib import planted  # noqa: E402


@unittest.skipIf(check_naming.find_tool() is None, "clang-tidy is not installed")
class Naming(planted.PlantedTest):
    def setUp(self):
        super().setUp()
        self.plant_rules(check_naming.RULES)
        self.build = self.plant_compile_commands("base/a.cc", "base/b.cc",
                                                 flags="-std=c++20 -Wno-flag-of-another-compiler")

    def check(self) -> tuple[int, list[str]]:
        return check_naming.check(self.root, self.build, check_naming.find_tool(), [])

    def test_good_names_are_fine_and_remembered(self):
        self.plant("base/a.cc", "namespace tally {\nstruct Tile { int size; };\n}\n")
        self.plant("base/b.cc", "template <typename T> void run(const auto& each, T) { each(); }\n")
        self.assertEqual(self.check(), (2, []))
        self.assertEqual(len(list((self.build / "checked-names").iterdir())), 2)
        self.assertEqual(self.check(), (2, []))

    def test_a_bad_name_in_a_header_is_found_once(self):
        self.plant("base/a.h", "#pragma once\nstruct bad_tile {};\n")
        self.plant("base/a.cc", '#include "base/a.h"\n')
        self.plant("base/b.cc", '#include "base/a.h"\n')
        count, found = self.check()
        self.assertEqual((count, len(found)), (2, 1), found)
        self.assertIn("bad_tile", found[0])
        self.plant("base/a.h", "#pragma once\nstruct GoodTile {};\n")
        self.assertEqual(self.check(), (2, []))

    def test_sources_compiled_as_one_are_checked_as_one(self):
        self.build = self.plant_compile_commands(self.plant_batch("base/a.cc", "base/b.cc"))
        self.plant("base/a.cc", "namespace tally {\nstruct bad_tile {};\n}\n")
        self.plant("base/b.cc", "namespace tally {\nstruct GoodTile {};\n}\n")
        count, found = self.check()
        self.assertEqual((count, len(found)), (2, 1), found)
        self.assertIn("bad_tile", found[0])
        self.plant("base/a.cc", "namespace tally {\nstruct Tile {};\n}\n")
        self.assertEqual(self.check(), (2, []))
        self.assertEqual(len(list((self.build / "checked-names").iterdir())), 1)
        self.plant("base/b.cc", "namespace tally {\nstruct other_tile {};\n}\n")
        self.assertEqual(len(self.check()[1]), 1, "it looks again when one of them changes")

    def test_a_source_that_does_not_compile_is_found(self):
        self.plant("base/a.cc", '#include "base/nothing.h"\n')
        self.plant("base/b.cc", "")
        self.assertEqual(len(self.check()[1]), 1)


if __name__ == "__main__":
    planted.main()
