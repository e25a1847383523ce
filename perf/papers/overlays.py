"""Networks in which each pair of workers has a link of its own, and what all-reduces cost there.

Costs are the time of the busiest link for each byte of an operation. Links are as fast both ways, and both directions
work at the same time. `speeds[i][j]` is the link between workers i and j.
"""

import random


def uniform(n: int, seed: int) -> list[list[float]]:
    """Speeds from 1 to 10."""
    return _symmetric(n, random.Random(seed), lambda source: source.uniform(1, 10))


def lognormal(n: int, seed: int) -> list[list[float]]:
    """The logarithms of the speeds have the standard normal distribution."""
    return _symmetric(n, random.Random(seed), lambda source: source.lognormvariate(0, 1))


def _symmetric(n: int, source: random.Random, draw) -> list[list[float]]:
    speeds = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            speeds[i][j] = speeds[j][i] = draw(source)
    return speeds


def network(speeds: list[list[float]], unit: float) -> dict:
    """For `tallyctl plan make --network`. unit: bytes per second of the speed 1. A speed of 0: there is no link."""
    n = len(speeds)
    return {"fmt": "tally-network/1", "machines": [{"name": f"w{i}", "role": "worker"} for i in range(n)],
            "links": [{"between": [f"w{i}", f"w{j}"], "speed": speeds[i][j] * unit}
                      for i in range(n) for j in range(i) if speeds[i][j] > 0]}


def slowest_of_ring(speeds: list[list[float]], order: list[int]) -> float:
    return min(speeds[a][b] for a, b in zip(order, order[1:] + order[:1]))


def ring(speeds: list[list[float]], order: list[int]) -> float:
    """All bytes go round in one direction."""
    n = len(order)
    return 2 * (n - 1) / n / slowest_of_ring(speeds, order)


def improved(speeds: list[list[float]], order: list[int]) -> list[int]:
    """The order after 2-opt: parts of the ring are reversed as long as that makes its slowest link faster."""
    best = slowest_of_ring(speeds, order)
    while True:
        tries = (order[:i] + order[i:j][::-1] + order[j:] for i in range(len(order)) for j in range(i + 2, len(order) + 1))
        better = max(tries, key=lambda found: slowest_of_ring(speeds, found))
        if slowest_of_ring(speeds, better) <= best:
            return order
        order, best = better, slowest_of_ring(speeds, better)


def parameter_server(speeds: list[list[float]]) -> float:
    """At the best of the workers."""
    return 1 / max(min(speed for other, speed in enumerate(row) if other != root) for root, row in enumerate(speeds))


def colocated_servers(speeds: list[list[float]]) -> float:
    """An equal share at each worker: a link carries the shares of both its ends in each direction."""
    n = len(speeds)
    return 2 / n / min(speeds[i][j] for i in range(n) for j in range(i))


def single_tree(speeds: list[list[float]]) -> float:
    """The spanning tree whose slowest link is fastest (Prim)."""
    n = len(speeds)
    inside, slowest = {0}, float("inf")
    while len(inside) < n:
        speed, added = max((speeds[i][j], j) for i in inside for j in range(n) if j not in inside)
        inside.add(added)
        slowest = min(slowest, speed)
    return 1 / slowest


def two_phases(speeds: list[list[float]]) -> float:
    """The bound of a reduce-scatter and an all-gather, one after the other, with equal shares: each takes 1/n of the bytes
    for each worker of a set, over the links that leave the set (ForestColl, Zhao et al., 2024)."""
    n = len(speeds)
    worst, inside, leaving = 0.0, [False] * n, 0.0
    for step in range(1, 1 << n):
        worker = (step & -step).bit_length() - 1  # by a Gray code one worker comes or goes at a time
        sign = -1 if inside[worker] else 1
        leaving += sign * sum(speed if not other else -speed for speed, other in zip(speeds[worker], inside))
        inside[worker] = not inside[worker]
        count = sum(inside)
        if 0 < count < n:
            worst = max(worst, count / leaving)
    return 2 * worst / n
