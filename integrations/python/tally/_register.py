"""Makes torch.distributed know the backend "tally". `import torch` calls it, through the entry point
`torch.backends`, so init_process_group("tally") works without an import of tally.torch.

This module loads nothing of Tally: a program that imports torch and does not use Tally pays nothing."""

from __future__ import annotations


def register() -> None:
    """Registers the backend. Later calls do nothing."""
    import torch.distributed as dist
    if dist.is_available() and not hasattr(dist.Backend, "TALLY"):
        dist.Backend.register_backend("tally", _create, devices=["cpu"])


def _create(*arguments):
    import tally.torch
    return tally.torch.create_backend(*arguments)
