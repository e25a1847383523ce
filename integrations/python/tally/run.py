"""Starts the ranks of a training script, as torchrun does, with Tally set up for them.

    python3 -m tally.run --nproc-per-node 4 train.py --epochs 3

Takes the arguments of torch.distributed.run. Without $TALLY_ADDRESS the ranks share a node of
their own on this machine, which ends with them.
"""

from __future__ import annotations

import sys


def _repair_std() -> None:
    """Repairs torch 1.13 on Python 3.11: iterating a Flag leaves out its zero, so `Std.from_str("0")`, the
    launcher's own default, does not work."""
    from torch.distributed.elastic.multiprocessing import api
    if api.Std.from_str("0") is api.Std.NONE:
        return

    def std_of(text: str):
        try:
            return api.Std(int(text))
        except ValueError:
            raise ValueError(f"{text} is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (all)") \
                from None

    def from_str(_class, value: str):
        if ":" not in value:
            return std_of(value)
        pairs = (entry.split(":", 1) for entry in value.split(","))
        return {int(rank): std_of(std) for rank, std in pairs}

    setattr(api.Std, "from_str", classmethod(from_str))


def _accept_dashes(launcher) -> None:
    """Accepts --nproc-per-node beside --nproc_per_node, because torch 1.13 knows only the latter."""
    original = launcher.get_args_parser

    def get_args_parser():
        parser = original()
        for name, action in list(parser._option_string_actions.items()):
            dashed = "--" + name[2:].replace("_", "-")
            if name.startswith("--") and dashed not in parser._option_string_actions:
                parser._option_string_actions[dashed] = action
                action.option_strings = [*action.option_strings, dashed]
        return parser

    launcher.get_args_parser = get_args_parser


def main() -> None:
    try:
        from torch.distributed import run as launcher
    except ImportError as error:
        sys.exit(f"tally.run needs PyTorch with torch.distributed: {error}")
    if len(sys.argv) == 1:
        print(__doc__.strip())
        sys.exit(2)
    _repair_std()
    _accept_dashes(launcher)
    launcher.main()


if __name__ == "__main__":
    main()
