#!/usr/bin/env python3
"""Checks that tallyd has the static probes that docs/metrics.md lists, with as many arguments.

usage: probes_test.py TALLYD METRICS_MD BUILT_WITH_SDT (true or false)
"""

import re
import subprocess
import sys
from pathlib import Path

_NOTE = re.compile(r"Provider: tally\s+Name: (\w+)\s+Location: .*\s+Arguments: (.*)")
_ROW = re.compile(r"^\| `(\w+)` \| (job, [^|]*) \|", re.MULTILINE)


def main() -> int:
    tallyd, document, with_sdt = sys.argv[1:4]
    if with_sdt != "true":
        print("built without <sys/sdt.h>")
        return 77
    notes = subprocess.run(["readelf", "--notes", "--wide", tallyd], text=True, check=True,
                           stdout=subprocess.PIPE).stdout
    found = {name: len(arguments.split()) for name, arguments in _NOTE.findall(notes)}
    listed = {name: len(arguments.split(",")) for name, arguments in
              _ROW.findall(Path(document).read_text(encoding="utf-8"))}
    print(f"in {tallyd}: {found}\nin {document}: {listed}")
    return 0 if found == listed and len(found) == 6 else 1


if __name__ == "__main__":
    sys.exit(main())
