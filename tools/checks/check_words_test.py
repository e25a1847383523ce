#!/usr/bin/env python3
"""check_words.py finds notes to self."""

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

    def test_leaves_other_words_alone(self):
        self.plant("base/a.cc", 'mkstemp("/tmp/XXXXXX");  // toDo, method, fixed\n')
        self.plant("docs/a.md", check_words.WORDS[0])
        self.assertEqual(check_words.check(self.root), (1, []))


if __name__ == "__main__":
    planted.main()
