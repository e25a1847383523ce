#!/usr/bin/env python3
"""check_prose.py finds long lines and words that hide the actor, in prose alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_prose  # noqa: E402
from lib import planted  # noqa: E402

LONG = "a node " * 20


class Prose(planted.PlantedTest):
    def problems(self, text: str) -> int:
        self.plant("docs/page.md", text)
        return len(check_prose.check(self.root)[1])

    def test_finds_a_long_line(self):
        self.assertEqual(self.problems(f"# Page\n\n{LONG}\n"), 1)

    def test_finds_each_word_also_at_the_start_of_a_sentence(self):
        self.assertEqual(self.problems("\n".join(f"{word.capitalize()} asks." for word in check_prose.WORDS)),
                         len(check_prose.WORDS))

    def test_leaves_tables_headings_code_and_links_alone(self):
        link = "x" * 200
        self.assertEqual(self.problems(f"# {LONG}\n| {LONG} |\n```sh\n{LONG} # whoever\n```\n{link}\n`nobody` at most\n"), 0)

    def test_reads_prose_after_a_code_block(self):
        self.assertEqual(self.problems("```sh\ncommand\n```\nSomebody asks.\n"), 1)


if __name__ == "__main__":
    planted.main()
