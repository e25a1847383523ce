#!/usr/bin/env python3
"""Transport verbs over soft-RoCE, in one guest: the end-to-end suite, the matrix of collectives, programs with a
protection domain of their own, trees of several nodes, then faults between machines. Some of it over transport fabric
too, with libfabric's provider for such devices.

usage: verbs_test.py E2E_TEST MATRIX_TEST TALLYD FAULT_RANK TALLYCTL OWN_MEMORY_TEST TALLY_PERF

$TALLY_TEST_TIER: fast, default, soak
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Six minutes are what it is to take, on processors of the usual speed; others may be half as fast.
TIMEOUTS = {"soak": 3000}
# The provider's own sizes ask for more than soft-RoCE and the guest have: docs/deploy.md.
SCRIPT = """set -e
export TALLY_TRANSPORT=verbs:rxe1 TALLYCTL=$5 TALLY_TEST_ACK_TIMEOUT=16
"$1" --gtest_brief=1
TALLY_TRANSPORT=verbs:rxe2 "$2" --gtest_brief=1  # the node takes rxe1: its bytes cross the switch
TALLY_TRANSPORT=verbs "$6" --gtest_brief=1
(
  export TALLY_TRANSPORT=fabric TALLY_TEST_PROVIDER="verbs;ofi_rxm" TALLY_TEST_HOST=10.9.0.1
  export FI_UNIVERSE_SIZE=16 FI_OFI_RXM_BUFFER_SIZE=512
  "$1" --gtest_brief=1 --gtest_filter="Collectives.AllReduce*:Collectives.EveryKind*:Collectives.AJobHas*"
  "$2" --gtest_brief=1 --gtest_filter="*EveryKindTypeAndOperation/2"
)
TALLY_TRANSPORT= TALLY_TEST_DEVICE=rxe1 python3 tests/e2e/trees_test.py "$3" "$5" "$7" \
  Trees.test_two_levels_below_a_helper
exec python3 tests/vm/verbs_faults.py "$3" "$4" "$5"
"""


def main() -> int:
    programs = [str(Path(program).resolve()) for program in sys.argv[1:]]  # the guest begins elsewhere
    timeout = TIMEOUTS.get(os.environ.get("TALLY_TEST_TIER", ""), 1000)
    return subprocess.run([sys.executable, str(HERE / "guest.py"), "--machines", "4", "--netem", "--timeout",
                           str(timeout), "--", "sh", "-c", SCRIPT, "sh", *programs], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
