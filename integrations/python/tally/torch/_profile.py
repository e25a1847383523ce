"""Measures the blocks of a model for `tallyctl plan pipeline` (docs/pipelines.md)."""

from __future__ import annotations

import copy
import json
import os
import statistics
import time
from collections.abc import Iterable, Sequence

import torch

FORMAT = "tally-profile/1"


def _seconds(device: torch.device) -> float:
    """The time after all work that the device has been given so far."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class _Stash:
    """Counts the memory that autograd keeps from a forward to a backward pass: each storage once, and no weights."""

    def __init__(self, block: torch.nn.Module) -> None:
        self.bytes = 0
        self._known = {tensor.untyped_storage().data_ptr()
                       for tensor in (*block.parameters(), *block.buffers())}

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._known:
            self._known.add(storage.data_ptr())
            self.bytes += storage.nbytes()
        return tensor


def _run(name: str, block: torch.nn.Module, value: torch.Tensor) -> torch.Tensor:
    output = block(value)
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"block {name} returns {type(output).__name__}, and a block must return one tensor: divide the "
                        "model at places where one tensor crosses, or wrap the block")
    return output


def _profile_block(name: str, block: torch.nn.Module, value: torch.Tensor, is_first: bool,
                   repeats: int) -> tuple[dict, torch.Tensor]:
    # A copy, because a forward pass may change buffers, and a backward pass changes gradients.
    block = copy.deepcopy(block)
    # The first block sends no gradient to a block before it.
    value = value.detach().requires_grad_(not is_first and value.is_floating_point())
    stash = _Stash(block)
    with torch.autograd.graph.saved_tensors_hooks(stash.pack, lambda tensor: tensor):
        output = _run(name, block, value)
    forward, backward = [], []
    for _ in range(repeats + 1):
        begin = _seconds(value.device)
        result = _run(name, block, value)
        middle = _seconds(value.device)
        if result.requires_grad:
            result.backward(torch.ones_like(result))
        end = _seconds(value.device)
        forward.append(middle - begin)
        backward.append(end - middle if result.requires_grad else 0.0)
    # The first time includes what torch prepares once.
    entry = {"name": name, "forward": [statistics.median(forward[1:])],
             "backward": [statistics.median(backward[1:])], "output": _bytes_of(output), "stash": stash.bytes,
             "kept": 0 if is_first else _bytes_of(value),
             "weights": sum(_bytes_of(parameter) for parameter in block.parameters())}
    return entry, output.detach()


def profile_blocks(blocks: torch.nn.Sequential | Iterable[torch.nn.Module], batch: torch.Tensor, *,
                   type: str = "gpu", model: str = "", repeats: int = 10,
                   path: str | os.PathLike | None = None) -> dict:
    """Measures each block with a microbatch, and returns the profile; writes it to `path` if that is given.

    `blocks` is a chain: each block has one tensor as its input, the output of the block before. `batch` is the input of
    the first block, on the device of the blocks. `type` is the name of this kind of GPU. Times are medians of `repeats`
    passes of one block alone. The blocks stay as they are.

    Raises TypeError when a block returns no tensor, and ValueError when there is no block.
    """
    if repeats < 1:
        raise ValueError(f"repeats = {repeats}: must be at least 1")
    named = list(blocks.named_children()) if isinstance(blocks, torch.nn.Sequential) else [
        (str(i), block) for i, block in enumerate(blocks)]
    if not named:
        raise ValueError("there is no block to profile: give the modules of the model, in order")
    entries, value = [], batch
    for i, (name, block) in enumerate(named):
        entry, value = _profile_block(name, block, value, i == 0, repeats)
        entries.append(entry)
    profile = {"fmt": FORMAT, "model": model, "microbatch": len(batch), "types": [type], "blocks": entries}
    if path is not None:
        _write(profile, path)
    return profile


def merge_profiles(profiles: Sequence[dict], path: str | os.PathLike | None = None) -> dict:
    """Joins profiles of the same model on different types of GPUs; writes the result to `path` if that is given.

    Bytes are those of the first profile. Raises ValueError when the profiles differ in their blocks, or two have a type
    in common.
    """
    merged = copy.deepcopy(profiles[0])
    for profile in profiles[1:]:
        names = [block["name"] for block in profile["blocks"]]
        if names != [block["name"] for block in merged["blocks"]] or profile["microbatch"] != merged["microbatch"]:
            raise ValueError("the profiles have different blocks or microbatches: profile the same model in the same "
                             "way on each type of GPU")
        if set(profile["types"]) & set(merged["types"]):
            raise ValueError(f"two profiles have the type {(set(profile['types']) & set(merged['types'])).pop()!r}: "
                             "give each type a name of its own")
        merged["types"] += profile["types"]
        for block, more in zip(merged["blocks"], profile["blocks"]):
            block["forward"] += more["forward"]
            block["backward"] += more["backward"]
    if path is not None:
        _write(merged, path)
    return merged


def _write(profile: dict, path: str | os.PathLike) -> None:
    head = {key: value for key, value in profile.items() if key != "blocks"}
    lines = ",\n  ".join(json.dumps(block) for block in profile["blocks"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{json.dumps(head)[:-1]},\n "blocks":[\n  {lines}]}}\n')
