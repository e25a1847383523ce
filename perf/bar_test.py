#!/usr/bin/env python3
"""A bar passes what is as good, and names what is not."""

import argparse
import contextlib
import io
import unittest

import bar


class Bar(unittest.TestCase):
    def run_bar(self, *arguments, **more) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            return bar.status(*arguments, **more), output.getvalue()

    def test_names_the_figure_that_is_worse(self):
        figures = {"the share at 1M": 0.9, "the share at 16M": 0.7}
        self.assertEqual(self.run_bar(0.8, figures), (1, "the share at 16M is 0.70: the bar is at least 0.8\n"))
        self.assertEqual(self.run_bar(0.7, figures), (0, ""))

    def test_less_may_be_better(self):
        figures = {"KiB per session": 65.0}
        self.assertEqual(self.run_bar(64, figures, less_is_better=True),
                         (1, "KiB per session is 65.00: the bar is at most 64\n"))
        self.assertEqual(self.run_bar(65, figures, less_is_better=True), (0, ""))

    def test_without_a_bar_all_is_well(self):
        parser = argparse.ArgumentParser()
        bar.add_option(parser, "it is below X")
        self.assertEqual(self.run_bar(parser.parse_args([]).bar, {"share": 0.0}), (0, ""))
        self.assertEqual(parser.parse_args(["--bar", "1.5"]).bar, 1.5)


if __name__ == "__main__":
    unittest.main()
