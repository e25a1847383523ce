#!/usr/bin/env python3
"""Writes a C++ header with the bytes of a file.

usage: embed.py FILE NAME HEADER
"""

import sys
from pathlib import Path

BYTES_PER_LINE = 24

file, name, header = sys.argv[1:]
data = Path(file).read_bytes()
lines = [", ".join(map(str, data[at:at + BYTES_PER_LINE])) + "," for at in range(0, len(data), BYTES_PER_LINE)]
Path(header).write_text("\n".join([f"inline constexpr unsigned char {name}[] = {{", *lines, "};", ""]))
