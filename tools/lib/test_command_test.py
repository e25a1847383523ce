#!/usr/bin/env python3
"""Tests tools/test on a small project with planted failures: what it counts, prints and returns."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import planted  # noqa: E402

PROJECT = """
project('planted', 'cpp', meson_version: '>=1.0', default_options: ['cpp_std=c++20'])
gtest = dependency('gtest', main: true, include_type: 'system')
test('cases', executable('cases_test', 'cases_test.cc', dependencies: gtest),
  suite: 'unit', protocol: 'gtest')
foreach name, script : {
    'good': 'exit 0', 'bad': 'exit 3', 'cardless': 'echo needs a card; exit 77',
    'tier': 'test "$TALLY_TEST_TIER" = fast'}
  test(name, find_program('sh'), args: ['-c', script], suite: 'check')
endforeach
test('slow', find_program('false'), suite: 'e2e')
"""

# This test neither passes nor can be built.
ONE_THREAD = """
test('alone', executable('unneeded', 'unneeded.cc'), suite: ['unit', 'one-thread'])
"""

CASES = """
#include <gtest/gtest.h>
#include <cstdlib>
TEST(Cases, Pass) {}
TEST(Cases, Skip) { GTEST_SKIP() << "needs a second card"; }
TEST(Cases, Fail) { EXPECT_EQ(1, 2) << "planted"; }
TEST(Cases, DISABLED_Off) {}
TEST(Cases, Die) { if (std::getenv("DIE")) std::abort(); }
"""


class TestCommand(planted.PlantedTest):
    def setUp(self):
        super().setUp()
        for folder in ("lib", "sanitizers"):
            shutil.copytree(planted.ROOT / "tools" / folder, self.root / "tools" / folder)
        for name in ("setup", "build", "test"):
            shutil.copy(planted.ROOT / "tools" / name, self.root / "tools" / name)
        self.plant("meson.build", PROJECT)
        self.plant("meson_options.txt", "option('fault_points', type: 'boolean', value: false)\n"
                   "option('python_interpreter', type: 'string')\n")  # tools/build sets them
        for path in ("integrations/python/requirements.txt", ".venv/tally-requirements.txt"):
            self.plant(path, "all is installed\n")
        self.plant("cases_test.cc", CASES)

    def run_tests(self, *arguments: str, **environment: str) -> tuple[int, list[str]]:
        """Returns (exit status, lines)."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TALLY_", "MESON", "VIRTUAL_ENV"))}
        result = subprocess.run(
            [str(self.root / "tools" / "test"), *arguments], env={**inherited, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return result.returncode, result.stdout.rstrip("\n").split("\n")

    def test_counts_cases_and_gives_reasons(self):
        status, lines = self.run_tests("--fast")
        self.assertEqual((status, lines[-1]), (1, "4 passed, 2 failed, 2 skipped"), lines)
        for expected in ("  [release] cases: Cases.Skip: needs a second card",
                         "  [release] cardless: needs a card",
                         "  [release] bad: exit status 3", "  [release] cases: Cases.Fail:"):
            self.assertIn(expected, lines)
        self.assertIn("planted", "\n".join(lines))

        status, lines = self.run_tests("--fast", "cases", DIE="1")  # old results must not count
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"), lines)
        self.assertIn("  [release] cases: killed by SIGABRT, in Cases.Die", lines)

        self.assertEqual(self.run_tests("--fast", "g?od")[1][-1], "1 passed, 0 failed, 0 skipped")
        self.assertEqual(self.run_tests("--fast", "good")[0], 0)
        for nothing in ("no-such-test", "slow", "cardless"):
            status, lines = self.run_tests("--fast", nothing)
            self.assertEqual((status, lines[-1][:18]), (1, "0 passed, 0 failed"), lines)

    def test_a_build_that_fails_is_a_failure(self):
        self.plant("cases_test.cc", "#include <no_such_header.h>\n")
        status, lines = self.run_tests("--fast")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"), lines)
        self.assertIn("no_such_header.h", "\n".join(lines))

    def test_a_warning_is_a_failure(self):
        self.plant("cases_test.cc", "#warning planted\n" + CASES)
        self.assertEqual(self.run_tests("--fast")[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_builds_with_sanitizers_are_of_what_they_test(self):
        self.plant("meson.build", PROJECT + ONE_THREAD)
        self.plant("unneeded.cc", "#error it is built\n")
        status, lines = self.run_tests("--fast", "--tsan")
        self.assertEqual((status, lines[-1]), (1, "2 passed, 2 failed, 1 skipped"), lines)

    def test_several_builds_are_counted_and_a_broken_one_is_named(self):
        self.plant("cases_test.cc", CASES + "#ifdef __clang__\n#error planted for clang\n#endif\n")
        status, lines = self.run_tests("--fast", "--tsan", "--asan", "cases")
        self.assertEqual((status, lines[-1]), (1, "2 passed, 2 failed, 1 skipped"), lines)
        self.assertIn("planted for clang", "\n".join(lines))
        self.assertIn("  [asan] build: does not build", lines)

    def test_unknown_options_are_refused(self):
        for arguments in (["--slow"], ["--fast", "--soak"], ["a", "b"], [""]):
            status, lines = self.run_tests(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertIn("usage: tools/test", "\n".join(lines))
        self.assertEqual(self.run_tests("--help")[0], 0)


if __name__ == "__main__":
    planted.main()
