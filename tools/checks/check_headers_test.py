#!/usr/bin/env python3
"""check_headers.py finds headers that do not compile alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_headers  # noqa: E402
from lib import planted  # noqa: E402


class Headers(planted.PlantedTest):
    def setUp(self):
        super().setUp()
        self.plant("base/a.cc", "")
        self.build = self.plant_compile_commands("base/a.cc")

    def problems(self) -> list[str]:
        return check_headers.check(self.root, self.build)[1]

    def test_a_complete_header_is_fine(self):
        self.plant("base/a.h", "#pragma once\n#include <string>\ninline std::string x;\n")
        self.assertEqual(self.problems(), [])

    def test_a_header_that_leans_on_others_is_found(self):
        self.plant("base/a.h", "#pragma once\ninline std::string x;\n")
        found = self.problems()
        self.assertEqual(len(found), 1)
        self.assertIn("base/a.h: does not compile alone", found[0])
        self.assertIn("std", found[0])

    def test_what_its_own_source_compiles_alone_is_left_to_it(self):
        self.plant("base/a.h", "#pragma once\ninline std::string x;\n")
        self.plant("base/a.cc", '#include "base/a.h"\n#include <string>\n')
        self.assertEqual(check_headers.check(self.root, self.build), (0, []))
        self.plant("base/a.cc", '#include <string>\n#include "base/a.h"\n')
        self.assertEqual(len(self.problems()), 1)

    def test_it_looks_again_when_an_included_header_changes(self):
        self.plant("base/low.h", "#pragma once\nstruct Low {};\n")
        self.plant("base/high.h", '#pragma once\n#include "base/low.h"\ninline Low low;\n')
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(), [])
        self.plant("base/low.h", "#pragma once\n")
        self.assertEqual(len(self.problems()), 1)

    def test_the_c_interface_must_be_c(self):
        self.plant("client/include/tally/tally.h", "#pragma once\nclass Session;\n")
        found = self.problems()
        self.assertEqual(len(found), 1)
        self.assertIn("alone as c", found[0])

    def test_flags_of_sources_compiled_as_one_are_found(self):
        self.plant("base/b.cc", "")
        self.build = self.plant_compile_commands(self.plant_batch("base/a.cc", "base/b.cc"))
        self.plant("base/a.h", "#pragma once\ninline std::string x;\n")
        self.assertEqual(len(self.problems()), 1)

    def test_a_build_without_sources_is_an_error(self):
        self.assertEqual(len(check_headers.check(self.root, self.plant_compile_commands())[1]), 1)


if __name__ == "__main__":
    planted.main()
