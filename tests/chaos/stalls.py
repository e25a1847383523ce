"""How long operations stalled, and which share of the time they did not: pure functions of spans of time."""

import math
from bisect import bisect_left
from collections.abc import Iterable

Span = tuple[float, float]  # begin and end, seconds of the monotonic clock


def of_faults(moments: list, spans: Iterable[Span]) -> list:
    """For each fault the longest span that it explains, in seconds; moments: when the faults happened, ascending.

    The first fault within a span explains it. A span without a fault belongs to the fault before it. A span that ends
    before the first fault belongs to none.
    """
    longest = [0.0] * len(moments)
    for begin, end in spans:
        inside = bisect_left(moments, begin)
        fault = inside if inside < len(moments) and moments[inside] <= end else inside - 1
        if fault >= 0:
            longest[fault] = max(longest[fault], end - begin)
    return longest


def covered(spans: Iterable[Span], begin: float, end: float) -> float:
    """The seconds of a stretch in which at least one of the spans is."""
    total, reached = 0.0, begin
    for first, last in sorted(spans):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total


def availability(stalled: Iterable[Span], begin: float, end: float) -> float:
    """The share of the stretch in which no operation stalled and a job was there."""
    return 1 - covered(stalled, begin, end) / (end - begin) if end > begin else 1.0


def calm(faults: Iterable[Span], begin: float, end: float, settle: float) -> list:
    """The spans of a stretch in which no fault is, and none was in the seconds before. faults: from begin to undone."""
    spans, reached = [], begin
    for first, last in sorted(faults):
        if first > reached:
            spans.append((reached, min(first, end)))
        reached = max(reached, last + settle)
    return [*spans, (reached, end)] if reached < end else spans


def rate(progress: list, spans: list) -> float:
    """Operations per second in these spans, from the moments at which operations ended, and how many."""
    seconds = sum(last - first for first, last in spans)
    done = sum(count for at, count in progress if any(first < at <= last for first, last in spans))
    return done / seconds if seconds > 0 else 0.0


def quantile(values: list, share: float) -> float:
    """The smallest of the values that at least this share of them does not exceed; 0 when there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
