"""Runs perf/ddp_exchange.py on the device of the tests (device/torch_device.py)."""

import runpy
import sys
from pathlib import Path

import torch_device

PROGRAM = Path(__file__).resolve().parents[1] / "perf/ddp_exchange.py"

sys.argv += ["--device", torch_device.NAME]
runpy.run_path(str(PROGRAM), run_name="__main__")
