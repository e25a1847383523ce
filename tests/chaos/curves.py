"""Curves of a training's loss: pure functions."""

import math

WINDOWS = 50


def means(curve: list) -> list:
    """The means of windows of equal length, of which there are WINDOWS to twice as many; of single steps where there are fewer."""
    length = max(1, len(curve) // WINDOWS)
    return [sum(curve[i:i + length]) / length for i in range(0, len(curve) - length + 1, length)]


def difference(one: list, other: list) -> float:
    """The root mean square of the relative differences of two curves' windows."""
    pairs = list(zip(means(one), means(other)))
    return math.sqrt(sum((a / b - 1) ** 2 for a, b in pairs) / len(pairs)) if pairs else math.inf
