#!/usr/bin/env python3
"""Draws what `tally-perf sim --json` wrote: the time of each work, and the bytes that it moved.

usage: control/sim/plot.py FILE --svg FILE

It needs nothing but Python.
"""

import argparse
import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape

LABELS = 150  # pixels
BARS = 360
ROW = 22
COLOURS = ("#4477aa", "#ee6677")


def size_text(size: int) -> str:
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


class Panel:
    """Horizontal bars below a title. Each row has a label and some (value, colour) bars; `mark` is a black line."""

    def __init__(self, title: str):
        self.title = title
        self.rows: list[tuple[str, list[tuple[float, str]], float | None, str]] = []

    def add(self, label: str, bars: list[tuple[float, str]], mark: float | None, text: str) -> None:
        self.rows.append((label, bars, mark, text))

    def height(self) -> int:
        return ROW * (len(self.rows) + 3)

    def draw(self, top: int) -> list[str]:
        values = [value for _, bars, mark, _ in self.rows for value in [*(bar for bar, _ in bars), mark or 0]]
        scale = BARS / max([*values, 1e-300])
        lines = [f'<text x="10" y="{top + ROW}" font-weight="bold">{escape(self.title)}</text>']
        for index, (label, bars, mark, text) in enumerate(self.rows):
            y = top + ROW * (index + 2)
            lines.append(f'<text x="10" y="{y + 14}">{escape(label)}</text>')
            height = (ROW - 6) / max(len(bars), 1)
            for place, (value, colour) in enumerate(bars):
                lines.append(f'<rect x="{LABELS}" y="{y + place * height:.1f}" width="{value * scale:.1f}" '
                             f'height="{height:.1f}" fill="{colour}"/>')
            if mark is not None:
                x = LABELS + mark * scale
                lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 2}" y2="{y + ROW - 4}" stroke="black"/>')
            end = max([*(value for value, _ in bars), mark or 0])
            lines.append(f'<text x="{LABELS + end * scale + 6:.1f}" y="{y + 14}">{escape(text)}</text>')
        return lines


def time_panel(rows: list[dict], size: int) -> Panel:
    panel = Panel(f"Time of an all-reduce of {size_text(size)}, ms. Black: the bound of the trees or transfers")
    for row in rows:
        panel.add(row["work"], [(row["seconds"] * 1e3, COLOURS[0])], row["bound"] * 1e3,
                  f"{row['seconds'] * 1e3:.3g} ({row['ratio']:.2f} x)")
    return panel


def tier_panel(rows: list[dict], size: int) -> Panel:
    panel = Panel(f"Bytes moved over bytes necessary, {size_text(size)}. Blue: out of machines, red: out of racks")
    for row in rows:
        ratios = [tier["moved"] / tier["necessary"] for tier in row["tiers"] if tier["necessary"] > 0]
        panel.add(row["work"], list(zip(ratios, COLOURS)), 1, ", ".join(f"{ratio:.2f}" for ratio in ratios))
    return panel


def drawing(report: dict) -> str:
    sizes = sorted({row["bytes"] for row in report["rows"]})
    by_size = {size: [row for row in report["rows"] if row["bytes"] == size] for size in sizes}
    panels = [time_panel(by_size[size], size) for size in sizes]
    if sizes:
        panels.append(tier_panel(by_size[sizes[-1]], sizes[-1]))
    title = (f"{report['workers']} workers, {report['machines']} machines; rules {report['rules']}, "
             f"order {report['order']}, forwarding {report['forwarding']}, seed {report['seed']}")
    lines, top = [f'<text x="10" y="{ROW}">{escape(title)}</text>'], ROW
    for panel in panels:
        lines += panel.draw(top)
        top += panel.height()
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + BARS + 190}" height="{top + ROW}" '
                      'font-family="sans-serif" font-size="13">',
                      '<rect width="100%" height="100%" fill="white"/>', *lines, "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", type=Path, help="of tally-perf sim --json")
    parser.add_argument("--svg", metavar="FILE", type=Path, required=True, help="the drawing")
    arguments = parser.parse_args()
    if arguments.svg.is_file() and arguments.file.is_file() and arguments.svg.samefile(arguments.file):
        parser.error(f"--svg {arguments.svg}: is the file to draw, which would be lost; give another")
    try:
        report = json.loads(arguments.file.read_text(encoding="utf-8"))
        text = drawing(report)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{arguments.file}: {error!r}; give a file of tally-perf sim --json")
    try:
        arguments.svg.write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"--svg {arguments.svg}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
