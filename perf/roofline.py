#!/usr/bin/env python3
"""Estimates a profile for `tallyctl plan pipeline` from a workload, without a GPU.

usage: perf/roofline.py perf/workloads/gpt2.json --flops 60e12 --memory 1.5e12 [--out profile.json]

A roofline (Williams et al., CACM 2009): the time of a block is the longer of its floating-point operations by the GPU's
speed, and of its bytes by the speed of the GPU's memory. The backward pass takes twice the forward pass. The workload's
file has the shapes of the weights alone, so the script adds what follows from the architecture:

- an output of a convolution has as many places as the layer has in the published model, for inputs of 224 x 224;
- a transformer layer has 4 tokens^2 x width operations of attention for each sequence, and keeps 17 values for each
  token and column (Korthikanti et al. 2022, without the matrix of attention);
- a table of embeddings has no operations.

A measured profile (tally.torch.profile_blocks) is better wherever there is a GPU.
"""

import argparse
import json
import math
import sys
from pathlib import Path

FORMAT = "tally-profile/1"
TABLES = ("wte.", "wpe.", "embeddings.word", "embeddings.position", "embeddings.token_type")
TRANSFORMER_LAYER = ("h.", "layer.")
STASHED_VALUES = 17  # of a transformer layer, for each token and column
# The side of the square of outputs of convolutions, by the begin of their names.
SIDES = {
    "resnet50": {"conv1": 112, "bn1": 112, "layer1": 56, "layer2": 28, "layer3": 14, "layer4": 7},
    "vgg16": {**{f"features.{i}": 224 for i in (0, 2)}, **{f"features.{i}": 112 for i in (5, 7)},
              **{f"features.{i}": 56 for i in (10, 12, 14)}, **{f"features.{i}": 28 for i in (17, 19, 21)},
              **{f"features.{i}": 14 for i in (24, 26, 28)}},
}


def block_of(name: str) -> str:
    """The block of a tensor: "h.0" of "h.0.mlp.c_fc.weight"."""
    if name.startswith(TABLES):
        return "embeddings"
    parts = name.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 and parts[1].isdigit() else parts[0]


def side_of(model: str, block: str) -> int:
    """0: the block has no convolution."""
    sides = SIDES.get(model, {})
    return sides.get(block, sides.get(block.split(".")[0], 0))


def estimate(name: str, tensors: list, model: str, arguments: argparse.Namespace, values_in: int) -> tuple[dict, int]:
    """The block's entry, and the values that it sends on."""
    tokens = arguments.samples * arguments.tokens
    side, operations, kept_values, weights = side_of(model, name), 0, 0, 0
    values_out = values_in
    for tensor, shape in tensors:
        count = math.prod(shape)
        weights += count
        if tensor.startswith(TABLES):
            values_out = tokens * shape[1]
        elif len(shape) == 4:
            operations += 2 * count * side * side * arguments.samples
            # Kept: the output of the convolution, and that of the activation.
            values_out = shape[0] * side * side * arguments.samples
            kept_values += 2 * values_out
        elif len(shape) == 2:
            rows = arguments.samples if model in SIDES else tokens
            operations += 2 * count * rows
            values_out = (shape[0] if model in SIDES else min(shape)) * rows
            kept_values += values_out
    if name.startswith(TRANSFORMER_LAYER):
        width = values_in // tokens
        operations += 4 * tokens * arguments.tokens * width
        values_out, kept_values = values_in, STASHED_VALUES * values_in
    moved = (weights + values_in + max(kept_values, values_out)) * arguments.bytes
    seconds = max(operations / arguments.flops, moved / arguments.memory)
    return {"name": name, "forward": [seconds], "backward": [2 * seconds], "output": values_out * arguments.bytes,
            "stash": max(kept_values, values_out) * arguments.bytes, "kept": values_in * arguments.bytes,
            "weights": weights * arguments.bytes}, values_out


def profile_of(workload: dict, arguments: argparse.Namespace) -> dict:
    groups = []
    for name, shape in workload["tensors"]:
        if not groups or groups[-1][0] != block_of(name):
            groups.append((block_of(name), []))
        groups[-1][1].append((name, shape))
    blocks, values = [], 0
    for name, tensors in groups:
        block, values = estimate(name, tensors, workload["model"], arguments, values)
        blocks.append(block)
    return {"fmt": FORMAT, "model": workload["model"], "microbatch": arguments.samples, "types": [arguments.type],
            "blocks": blocks}


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", type=Path, help="a file of perf/workloads/")
    parser.add_argument("--flops", type=float, required=True, help="operations per second of the GPU, as it reaches them")
    parser.add_argument("--memory", type=float, required=True, help="bytes per second of its memory")
    parser.add_argument("--samples", type=int, default=8, help="of a microbatch (default 8)")
    parser.add_argument("--tokens", type=int, default=512, help="of a sequence, for transformers (default 512)")
    parser.add_argument("--bytes", type=int, default=4, help="of a value (default 4)")
    parser.add_argument("--type", default="gpu", help="name of the type of GPU")
    parser.add_argument("--out", type=Path, help="the file to write; left out: stdout")
    arguments = parser.parse_args(words)
    for option in ("flops", "memory", "samples", "tokens", "bytes"):
        if not 0 < getattr(arguments, option) < math.inf:
            parser.error(f"--{option} {getattr(arguments, option)}: must be above 0")
    return arguments


def main() -> int:
    arguments = read_arguments()
    try:
        workload = json.loads(arguments.workload.read_text(encoding="utf-8"))
        profile = profile_of(workload, arguments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"roofline: {arguments.workload}: {error}; give a file like those in perf/workloads/", file=sys.stderr)
        return 2
    text = json.dumps(profile, indent=1) + "\n"
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
