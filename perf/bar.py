"""A bar for a measurement: the exit status is 1, and a sentence says so, where a figure is worse."""

import argparse


def add_option(parser: argparse.ArgumentParser, figure: str) -> None:
    parser.add_argument("--bar", type=float, metavar="X", help=f"exit with 1 where {figure}")


def status(bar: float | None, figures: dict[str, float], less_is_better: bool = False) -> int:
    """For sys.exit. `figures`: by what they are of, as in "of 16M: share of plain sockets"."""
    if bar is None:
        return 0
    worse = {what: value for what, value in figures.items() if (value > bar if less_is_better else value < bar)}
    for what, value in worse.items():
        print(f"{what} is {value:.2f}: the bar is at {'most' if less_is_better else 'least'} {bar:g}")
    return 1 if worse else 0
