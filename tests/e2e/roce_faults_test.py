#!/usr/bin/env python3
"""Clients of transport verbs and a node of transport roce, over a cable that loses, doubles, swaps and damages frames,
and marks some as a congested switch does.

The program runs in one process (e2e_roce_test). It runs once for each rate, which all five faults have in both
directions. Every operation must end, with the right bits. At its end the program prints the faults that happened.

usage: roce_faults_test.py E2E_ROCE_TEST [--seed N]    the seed: by $TALLY_SIM_SEED, else 7
"""
import argparse
import os
import re
import subprocess
import sys
import time

RATES = (0.001, 0.01, 0.05)
WHOLE = 0.01  # the rate at which the default tier runs all cases of the e2e suite
FEW = "Collectives.EveryKind*:Collectives.AdoptedAndStaged*:Collectives.RunWaits*:MetricsTest.Counters*"
# 17 ms in place of 67 ms: with many losses the timeouts decide how long everything takes. With a sanitizer, threads of a
# busy machine wait for a processor for so long that live peers count as lost; so there it is 268 ms.
ACK_TIMEOUT = "16" if os.environ.get("TALLY_SANITIZER") else "12"


def cases(tier: str, rate: float) -> str:
    """Returns a filter of gtest."""
    if tier == "soak":
        return "*"
    return "-*Matrix*" if tier == "default" and rate == WHOLE else FEW


def run(program: str, rate: float, seed: int, chosen: str) -> bool:
    faults = f"seed={seed},loss={rate},double={rate},swap={rate},damage={rate},mark={rate}"
    environment = os.environ | {"TALLY_TRANSPORT": "verbs", "TALLY_TEST_NODE": "roce", "TALLY_TEST_CABLE": faults}
    environment.setdefault("TALLY_TEST_ACK_TIMEOUT", ACK_TIMEOUT)
    begin = time.monotonic()
    done = subprocess.run([program, f"--gtest_filter={chosen}", "--gtest_brief=1"], env=environment,
                          capture_output=True, text=True, check=False)
    report = next((line for line in done.stdout.splitlines() if line.startswith("cable")), "no report")
    print(f"rate {rate}: status {done.returncode}, {time.monotonic() - begin:.1f} s; {report}", flush=True)
    if done.returncode == 0 and re.search(r" [1-9][0-9]* lost.* [1-9][0-9]* marked", report):
        return True
    if done.returncode == 0:
        print("the cable had no faults")
    print(done.stdout, done.stderr)
    print(f"failed; replay: TALLY_TEST_CABLE={faults} TALLY_TEST_ACK_TIMEOUT={environment['TALLY_TEST_ACK_TIMEOUT']} "
          f"TALLY_TRANSPORT=verbs TALLY_TEST_NODE=roce {program} --gtest_filter='{chosen}'")
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TALLY_SIM_SEED", "7")))
    chosen = parser.parse_args()
    tier = os.environ.get("TALLY_TEST_TIER", "default")
    fine = [run(chosen.program, rate, chosen.seed, cases(tier, rate)) for rate in RATES]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
