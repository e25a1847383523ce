#!/usr/bin/env python3
"""The tools around the model: a search that leaves states out is not complete, and the model names code that exists."""

import re
import shutil
import sys
import unittest
from pathlib import Path

import configurations
import pan
import run

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
_SOURCE = re.compile(r"\b(?:client|dataplane|control|docs)/[\w/]+\.(?:h|md)\b")
_OPTION = re.compile(r"#\s*(?:ifdef|ifndef|if|elif)\b(.*)")


class Searches(unittest.TestCase):
    def test_a_search_of_all_states_is_complete(self):
        self.assertTrue(pan.verify((), small=True).complete)

    def test_a_search_that_ends_at_a_depth_is_not_complete(self):
        self.assertFalse(pan.verify(("LOSSES=1",), small=True, depth=30).complete)

    def test_a_search_that_ends_for_lack_of_memory_is_not_complete(self):
        self.assertFalse(pan.verify(("LOSSES=2", "BREAKS=1"), small=True, memory_mb=20).complete)

    def test_options_that_do_not_go_together_are_refused_with_the_reason(self):
        with self.assertRaisesRegex(pan.ToolFailed, "eager operations have one part"):
            pan.verify(("EAGER", "PARTS=2"), small=True)


class Names(unittest.TestCase):
    def test_the_model_names_code_that_exists(self):
        for file in sorted(FOLDER.glob("*.pml")):
            named = _SOURCE.findall(file.read_text(encoding="utf-8"))
            self.assertEqual([name for name in named if not (ROOT / name).exists()], [], file.name)

    def test_every_configuration_has_options_that_the_model_knows(self):
        lines = [line for file in FOLDER.glob("*.pml") for line in file.read_text(encoding="utf-8").splitlines()]
        known = {word for line in lines if (found := _OPTION.match(line)) for word in re.findall(r"[A-Z_]+", found[1])}
        for check in (*configurations.HOLD, *configurations.MUTANTS, *configurations.REACHED):
            self.assertEqual(set(check.macros()) - known, set(), check.name)


class Traces(unittest.TestCase):
    def test_a_seed_determines_its_trace(self):
        check = configurations.HOLD[0]
        traces = list(run.traces(check, range(8, 10)))
        self.assertEqual(traces, list(run.traces(check, range(8, 10), jobs=2)))
        self.assertNotEqual(traces[0][1:], traces[1][1:])

    def test_the_first_line_has_the_sizes_and_options(self):
        check = next(check for check in configurations.HOLD if check.name == "parts-in-place")
        first = next(run.traces(check, range(5, 6)))[0]
        self.assertEqual(first, "trace configuration=parts-in-place seed=5 ranks=2 nodes=2 parts=2 rounds=2 in_place=1 "
                                "preserve=0 eager=0")

    def test_README_explains_every_event(self):
        page = (FOLDER / "README.md").read_text(encoding="utf-8")
        explained = set(re.findall(r"^\| `(\w+)", page, re.MULTILINE))
        events = {event for file in FOLDER.glob("*.pml")
                  for event in re.findall(r'EVENT\("(\w+) ', file.read_text(encoding="utf-8"))}
        self.assertEqual(events - explained, set())


if __name__ == "__main__":
    if not shutil.which("spin"):
        print("spin is not installed (tools/setup --dev)")
        sys.exit(run.SKIPPED)
    unittest.main()
