"""Profiles of PipeDream (SOSP '19), as its repository has them for V100 GPUs: graphs of layers with times in ms and sizes."""

import re
from pathlib import Path

NODE = re.compile(r"^(\w+) -- (.*) -- forward_compute_time=([\d.]+), backward_compute_time=([\d.]+), "
                  r"activation_size=([\d.]+), parameter_size=([\d.]+)$")


class Layer:
    def __init__(self, name: str, forward: str, backward: str, output: str, weights: str):
        self.is_input = name.startswith("Input")  # it reads the samples, as without a pipeline
        self.name = name.split("(")[0]
        self.forward, self.backward = (0 if self.is_input else float(ms) / 1e3 for ms in (forward, backward))
        self.output, self.weights = float(output), float(weights)


def in_order(layers: dict[str, Layer], after: dict[str, list[str]]) -> list[str]:
    """Each layer behind those that it needs; depth first, so that branches stay together."""
    order, seen = [], set()

    def visit(node: str) -> None:
        seen.add(node)
        for successor in after[node]:
            if successor not in seen:
                visit(successor)
        order.append(node)

    needed = {successor for successors in after.values() for successor in successors}
    for node in layers:
        if node not in needed:
            visit(node)
    return order[::-1]


def profile_of(file: Path) -> dict:
    """A profile for `tallyctl plan pipeline` (docs/pipelines.md). A block ends where one tensor crosses."""
    layers, after = {}, {}
    lines = file.read_text(encoding="utf-8").splitlines()
    edges = [line for line in lines if line.startswith("\t")]
    for line in lines:
        if line.startswith("\t"):
            continue
        if not (found := NODE.match(line)):
            raise ValueError(f"{file}: this line is no layer of PipeDream's profiler: {line}")
        layers[found[1]] = Layer(*found.groups()[1:])
        after[found[1]] = []
    for edge in edges:
        source, successor = edge.strip().split(" -- ")
        after[source].append(successor)
    order = in_order(layers, after)
    place = {node: number for number, node in enumerate(order)}
    blocks, members, crossing, kept = [], [], set(), 0.0
    for number, node in enumerate(order):
        members.append(layers[node])
        crossing.add(node)
        crossing = {one for one in crossing if any(place[successor] > number for successor in after[one])}
        if len(crossing) > 1 or all(one.is_input for one in members):
            continue
        output = layers[node].output if not crossing else layers[next(iter(crossing))].output
        blocks.append({"name": f"{len(blocks)}-{members[0].name}", "forward": [sum(one.forward for one in members)],
                       "backward": [sum(one.backward for one in members)], "output": output,
                       "stash": sum(one.output for one in members), "kept": kept,
                       "weights": sum(one.weights for one in members)})
        members, kept = [], output
    return {"fmt": "tally-profile/1", "model": file.parent.name, "types": ["gpu"], "blocks": blocks}
