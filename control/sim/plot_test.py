#!/usr/bin/env python3
"""The drawing of what tally-perf sim wrote."""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

PLOT = Path(__file__).resolve().parent / "plot.py"
SVG = "{http://www.w3.org/2000/svg}"


def row(work: str, size: int) -> dict:
    return {"work": work, "bytes": size, "seconds": 0.2, "bound": 0.1, "ratio": 2.0,
            "tiers": [{"name": "machines", "moved": 28, "necessary": 14},
                      {"name": "racks", "moved": 8, "necessary": 2}]}


class PlotTest(unittest.TestCase):
    def run_plot(self, text: str, folder: Path) -> subprocess.CompletedProcess:
        (folder / "sim.json").write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, PLOT, folder / "sim.json", "--svg", folder / "sim.svg"],
                              capture_output=True, text=True, check=False)

    def test_draws_a_bar_for_each_work_and_tier(self):
        report = {"workers": 8, "machines": 12, "rules": "ideal", "order": "oldest", "forwarding": "cut", "seed": 1,
                  "rows": [row(work, size) for size in (1 << 20, 1 << 30) for work in ("plan", "a<b&c")]}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            done = self.run_plot(json.dumps(report), folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            drawing = ElementTree.parse(folder / "sim.svg").getroot()
        # The background, a bar for each of 4 rows, and 2 tiers for each of the 2 rows of the largest size.
        self.assertEqual(len(drawing.findall(f"{SVG}rect")), 1 + 4 + 2 * 2)
        self.assertEqual(len(drawing.findall(f"{SVG}line")), 4 + 2)
        texts = [text.text for text in drawing.findall(f"{SVG}text")]
        self.assertEqual(texts.count("a<b&c"), 3)
        self.assertIn("200 (2.00 x)", texts)

    def test_refuses_to_replace_its_file(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "sim.svg").symlink_to(folder / "sim.json")
            done = self.run_plot("{}", folder)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--svg {folder}/sim.svg: is the file to draw, which would be lost", done.stderr)

    def test_refuses_other_files(self):
        for text in ("", "{}", "[]", '{"rows": [{}]}'):
            with tempfile.TemporaryDirectory() as name:
                done = self.run_plot(text, Path(name))
                self.assertEqual(done.returncode, 2, text)
                self.assertIn("give a file of tally-perf sim --json", done.stderr)


if __name__ == "__main__":
    unittest.main()
