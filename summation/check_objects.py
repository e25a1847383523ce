#!/usr/bin/env python3
"""Disassembles the built archives of summation/ and proves what their flags promise:
  - what runs on every processor uses no ymm, zmm or mask register (an inline function that an
    AVX-512 object shares with the rest would be such a leak), and neither do the symbols that the
    vector objects export to the linker: only their tables, no weak functions;
  - AVX2 objects use no zmm and no mask register;
  - nothing fuses a multiply and an add, which would be one rounding instead of two.
"""
import re
import subprocess
import sys

WIDE = re.compile(r"%[yz]mm|%k[0-7]\b")
WIDER = re.compile(r"%zmm|%k[0-7]\b")
FUSED = re.compile(r"\bvfn?m(add|sub)")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def instructions(archive):
    return [line for line in run("objdump", "-d", "--no-show-raw-insn", archive).splitlines()
            if "\t" in line]


def main():
    base, avx2, avx512 = sys.argv[1:4]
    failures = []
    counts = []
    for archive, forbidden in ((base, [WIDE, FUSED]), (avx2, [WIDER, FUSED]), (avx512, [FUSED])):
        lines = instructions(archive)
        counts.append(len(lines))
        if len(lines) < 500:
            failures.append(f"{archive}: only {len(lines)} instructions, nothing was checked")
        for pattern in forbidden:
            for line in [x for x in lines if pattern.search(x)][:3]:
                failures.append(f"{archive}: {line.strip()}")
    if not any("%zmm" in line for line in instructions(avx512)):
        failures.append(f"{avx512}: no zmm at all")
    for archive in (avx2, avx512):
        for line in run("nm", "--defined-only", archive).splitlines():
            fields = line.split()
            # T: a function visible to the linker, W: one that it may pick for others, u and V: data so.
            if len(fields) == 3 and fields[1] in "TWuV":
                failures.append(f"{archive}: exports {fields[1]} {fields[2]}")
    print("\n".join(failures) or f"checked {counts} instructions")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
