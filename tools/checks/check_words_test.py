#!/usr/bin/env python3
"""check_words.py finds notes to self and replaced names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_words  # noqa: E402
from lib import planted  # noqa: E402


class Words(planted.PlantedTest):
    def test_finds_each_word_in_code_and_scripts(self):
        for number, word in enumerate(check_words.WORDS):
            self.plant(f"base/{number}.cc", f"// {word}(me): mend this\n")
        self.plant("tools/demo", f"#!/bin/sh\n# {check_words.WORDS[0]}\n")
        self.assertEqual(len(check_words.check(self.root)[1]), len(check_words.WORDS) + 1)

    def test_finds_names_that_are_gone(self):
        self.plant("base/a.h", "class Uplinks;\nstruct LinkUplink;\nint kStopPatience;\n")
        _, problems = check_words.check(self.root)
        self.assertEqual(len(problems), 3, problems)
        self.assertTrue(problems[0].startswith("base/a.h:1: Uplink is now ParentConnection"), problems[0])

    def test_leaves_names_alone_that_only_look_alike(self):
        self.plant("base/a.h", "int performing, upLinks, Outstanding, Uplinking;\n")
        self.plant("docs/b.md", "Uplink\n")
        self.assertEqual(check_words.check(self.root), (1, []))

    def test_finds_verbs_in_names(self):
        self.plant("net/a.cc", "void say();\nint told_;\nbool was_heard;\nTEST(Node, SaysWhy) {}\n")
        _, problems = check_words.check(self.root)
        self.assertEqual(len(problems), 4, problems)
        self.assertTrue(problems[1].startswith("net/a.cc:2: told in a name: write notify"), problems[1])

    def test_finds_nouns_in_names(self):
        self.plant("net/a.cc", "int lane_of;\nTEST(Ring, SlotsAreFreed) {}\nint max_slot_bytes, planes;\n")
        _, problems = check_words.check(self.root)
        self.assertEqual(len(problems), 2, problems)
        self.assertTrue(problems[1].startswith("net/a.cc:2: Slots in a name: write buffer"), problems[1])

    def test_leaves_lanes_of_vectors_alone(self):
        self.plant("summation/a.cc", "double lanes_[kSquareLanes];\n")
        self.assertEqual(check_words.check(self.root), (1, []))

    def test_leaves_verbs_alone_outside_of_names(self):
        self.plant("net/a.cc", 'int essay, Tellurium;  // says so\n/* it\n tells */\nf("say", R"(\nhear)");\n')
        self.plant("tools/c.py", "told = 1\n")
        self.assertEqual(check_words.check(self.root), (2, []))

    def test_leaves_other_words_alone(self):
        self.plant("base/a.cc", 'mkstemp("/tmp/XXXXXX");  // toDo, method, fixed\n')
        self.plant("docs/a.md", check_words.WORDS[0])
        self.assertEqual(check_words.check(self.root), (1, []))


if __name__ == "__main__":
    planted.main()
