"""How much of itself a script of tests runs."""

import os


def chosen(asked: list, few: tuple) -> list:
    """Names for unittest: those asked for, else all (none are named), but in tier fast the few: that is the sanitizers',
    which find in them what they would find in all."""
    return asked or (list(few) if os.environ.get("TALLY_TEST_TIER") == "fast" else [])
