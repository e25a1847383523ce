#!/usr/bin/env python3
"""Transport verbs over soft-RoCE, in one guest: the end-to-end suite, programs with a protection domain of their own,
then faults between machines. With tier soak also the whole matrix of collectives, trees of several nodes, and some of it
over transport fabric, with libfabric's provider for such devices.

usage: verbs_test.py E2E_TEST MATRIX_TEST TALLYD FAULT_RANK TALLYCTL OWN_MEMORY_TEST TALLY_PERF

$TALLY_TEST_TIER: fast, default, soak
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = """set -e
export TALLY_TRANSPORT=verbs:rxe1 TALLYCTL=$5 TALLY_TEST_ACK_TIMEOUT=16
"$1" --gtest_brief=1
# The node takes rxe1: its bytes cross the switch.
TALLY_TRANSPORT=verbs:rxe2 "$2" --gtest_brief=1 --gtest_filter="$8"
TALLY_TRANSPORT=verbs "$6" --gtest_brief=1
"""
# The provider's own sizes ask for more than soft-RoCE and the guest have: docs/deploy.md.
SOAK = """(
  export TALLY_TRANSPORT=fabric TALLY_TEST_PROVIDER="verbs;ofi_rxm" TALLY_TEST_HOST=10.9.0.1
  export FI_UNIVERSE_SIZE=16 FI_OFI_RXM_BUFFER_SIZE=512
  "$1" --gtest_brief=1 --gtest_filter="Collectives.AllReduce*:Collectives.EveryKind*:Collectives.AJobHas*"
  "$2" --gtest_brief=1 --gtest_filter="*EveryKindTypeAndOperation/2"
)
TALLY_TRANSPORT= TALLY_TEST_DEVICE=rxe1 python3 tests/e2e/trees_test.py "$3" "$5" "$7" \
  Trees.test_two_levels_below_a_helper
"""
FAULTS = """exec python3 tests/vm/verbs_faults.py "$3" "$4" "$5"
"""


def main() -> int:
    programs = [str(Path(program).resolve()) for program in sys.argv[1:]]  # the guest begins elsewhere
    soak = os.environ.get("TALLY_TEST_TIER", "") == "soak"
    script = SCRIPT + (SOAK if soak else "") + FAULTS
    matrix = "*" if soak else "*EveryKindTypeAndOperation/2"
    return subprocess.run([sys.executable, str(HERE / "guest.py"), "--machines", "4", "--netem", "--timeout",
                           str(3000 if soak else 1000), "--", "sh", "-c", script, "sh", *programs, matrix],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
