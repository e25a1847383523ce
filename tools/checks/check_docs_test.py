#!/usr/bin/env python3
"""check_docs.py finds dead links and paths, and status codes and columns that are not explained."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_docs  # noqa: E402
from lib import planted  # noqa: E402


class Docs(planted.PlantedTest):
    def test_finds_dead_links(self):
        self.plant("docs/a.md", "[b](b.md) [up](../README.md#part) [web](https://x.org/y)\n"
                                "```\nview[0](first.md)\n```\n")
        self.plant("README.md", "[a](docs/a.md)\n")
        self.assertEqual(check_docs.check(self.root),
                         (2, ["docs/a.md: the link to b.md leads nowhere"]))

    def test_finds_paths_of_files_that_are_gone(self):
        self.plant("base/a.h", "")
        self.plant("docs/a.md", "`base/a.h`, `base/b.h`, `<sys/sdt.h>`, `a.h`, `tests/NAME.cc`\n")
        self.assertEqual(check_docs.check(self.root), (1, ["docs/a.md: there is no base/b.h"]))

    def test_finds_unexplained_codes(self):
        self.plant("base/status.h", "enum class Status {\n  kOk = 0,\n  kNoCredit = 11,  // x\n};\n")
        self.plant("docs/errors.md", "| 0 | ok | done | |\n")
        _, problems = check_docs.check(self.root)
        self.assertEqual(len(problems), 1)
        self.assertIn("`| 11 | no credit |`", problems[0])
        self.plant("docs/errors.md", "| 0 | ok | done | |\n| 11 | no credit | x | y |\n")
        self.assertEqual(check_docs.check(self.root), (1, []))

    def test_finds_undefined_columns(self):
        self.plant("control/cli/views.cc", 'Column{"bytes_in", "in", Format::kBytes, true},\n'
                                       'Column{"late_us", "us late"},\n')
        self.plant("dataplane/engine/counters.h", 'CounterName{"bytes_in", &Counters::in},\n')
        self.plant("docs/metrics.md", "| `bytes_in`, `x` | in, out | pulled |\nus late\n")
        self.assertEqual(check_docs.check(self.root),
                         (1, ["docs/metrics.md: no row for 'us late' of control/cli/views.cc"]))

    def test_finds_events_that_no_document_has(self):
        self.plant("control/a.cc", 'log::info("logged", {});\nlog::warning(\n    "not-documented", {{"x", 1}});\n')
        self.plant("docs/a.md", "| `event=logged x=` | |\n")
        self.assertEqual(check_docs.check(self.root), (1, ["no document has event=not-documented, which control/a.cc logs"]))


if __name__ == "__main__":
    planted.main()
