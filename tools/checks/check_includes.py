#!/usr/bin/env python3
"""Checks who includes whom against the table in docs/map.md.

usage: check_includes.py [--root FOLDER] [--table]

--table prints the table as docs/map.md has it, and checks nothing.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

# The units, lowest first. A unit is a folder with what is below it, less the units within: so
# dataplane/transport is the seam (transport.h), and the transports are units of their own.
#
# Each unit may include itself and exactly what its row names: a unit, or a single file of one. A
# row is not transitive: what it means to use, it names. ALL: every unit above the row.
#
# Tests (*_test.cc) may include every unit up to their own in this order, and helpers in tests/.
ALL = "all of the above"
CUT = [f"dataplane/protocol/{name}.h" for name in ("cut", "collective", "granules")]  # shared by both ends
TRANSPORTS = [f"dataplane/transport/{t}" for t in ("shm", "verbs", "fabric", "roce", "loopback", "faulty")]
MAY_USE = {
    "base": [],
    "summation": ["base"],
    "dataplane/wire": ["base"],
    "dataplane/protocol": ["base", "dataplane/wire"],
    "dataplane/transport": ["base", "dataplane/wire"],
    "dataplane/transport/onesided": ["base", "dataplane/wire", "dataplane/transport"],
    **{t: ["base", "dataplane/wire", "dataplane/transport"] for t in TRANSPORTS},
    **{t: ["base", "dataplane/wire", "dataplane/transport", "dataplane/transport/onesided"]
       for t in TRANSPORTS if t.endswith(("verbs", "fabric"))},
    "dataplane/engine": ["base", "summation", "dataplane/wire", "dataplane/protocol",
                         "dataplane/transport"],
    "client": ["base", "dataplane/wire", *CUT, "dataplane/transport",
               "dataplane/transport/shm", "dataplane/transport/verbs",
               "dataplane/transport/fabric", "dataplane/transport/faulty"],
    "gpu_bridge": ["base", "client"],
    "control/plan": ["base"],
    "control": [ALL],
    "perf": [ALL],
    "integrations": ["base", "client", "gpu_bridge", 
                     "dataplane/protocol/collective.h", "dataplane/transport/shm/memory.h"],
    "tests": [ALL],
}

# Where headers of other projects may stand: (how the header begins, the places, the reason).
# A place is a folder, or a single file. What is not listed may be included anywhere.
ENGINE = "dataplane/engine"
ROCE = "dataplane/transport/roce"
FOREIGN = [
    ("infiniband/", ["dataplane/transport/verbs", "dataplane/transport/fabric", ROCE, "tests/vm"],
     "RDMA libraries stay behind the transport seam"),
    ("rdma/", ["dataplane/transport/verbs", "dataplane/transport/fabric", ROCE],
     "RDMA libraries stay behind the transport seam"),
    ("rte_ethdev", [ROCE], "ports are driven by the roce transport alone"),
    ("rte_", [ENGINE, ROCE], "DPDK stays in the engine"),
    ("asio", ["control", "tests"], "asynchronous sockets belong to the control plane"),
    ("hwloc", ["control"], "one place asks what of a machine belongs together"),
    ("toml++/", ["control"], "one place reads the configuration"),
    ("nlohmann/", ["control", "client", "perf", "tests"], "JSON is the control protocol and reports"),
    ("isa-l", ["base"], "one wrapper opens it"),
    ("immintrin.h", ["summation", "perf", "base"], "vector code lives in the kernels"),
    ("cuda", ["gpu_bridge", "integrations"], "GPU code lives on the workers' side"),
    ("nccl", ["gpu_bridge", "integrations"], "GPU code lives on the workers' side"),
]

# Where helpers for the tests of every unit stand.
TEST_HELPERS = "tests"


def unit_of(path: str) -> str | None:
    """The unit that a path (a file, or an #include) belongs to; None when it is not ours."""
    fitting = [u for u in MAY_USE if path == u or path.startswith(u + "/")]
    return max(fitting, key=len, default=None)


def is_within(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def may_use(file: str, target: str) -> bool:
    """May this file include that one?"""
    order = list(MAY_USE)
    user, used = unit_of(file), unit_of(target)
    if user is None or used is None or user == used:
        return True
    if Path(file).stem.endswith("_test"):
        return used == TEST_HELPERS or order.index(used) < order.index(user)
    row = MAY_USE[user]
    if ALL in row:
        return order.index(used) < order.index(user)
    return used in row or target in row


def describe(user: str) -> str:
    return ", ".join(MAY_USE[user]) or "nothing"


def table() -> list[str]:
    """Rows in Markdown."""
    rows = ["| may include | of this repository |", "|---|---|"]
    rows += [f"| `{unit}` | {describe(unit)} |" for unit in MAY_USE]
    rows += ["", "| foreign headers | only in | because |", "|---|---|---|"]
    rows += [f"| `<{prefix}{'' if prefix.endswith('.h') else '*'}>` | {', '.join(places)} | {why} |"
             for prefix, places, why in FOREIGN]
    return rows


def check_file(root: Path, graph: sources.IncludeGraph, file: str) -> list[str]:
    problems = []
    text = (root / file).read_text(encoding="utf-8", errors="replace")
    for line, path, _ in sources.includes(text):
        target = graph.resolve(path, file) or path
        if unit_of(target) is not None:
            if not may_use(file, target):
                user = unit_of(file)
                problems.append(f"{file}:{line}: {user} may not include {target} "
                                f"(it may use: {describe(user)})")
            continue
        for prefix, places, reason in FOREIGN:
            if path.startswith(prefix):
                if not is_within(file, places):
                    problems.append(f"{file}:{line}: <{path}> may stand only in "
                                    f"{', '.join(places)}: {reason}")
                break
    return problems


def check(root: Path) -> tuple[int, list[str]]:
    """(files looked at, problems)"""
    graph = sources.IncludeGraph(root)
    files = [f for f in sources.list_files(root, sources.CPP) if unit_of(f) is not None]
    return len(files), [p for file in files for p in check_file(root, graph, file)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--table", action="store_true", help="print the table for docs/map.md")
    arguments = parser.parse_args()
    if arguments.table:
        print("\n".join(table()))
        return 0
    count, problems = check(arguments.root)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"includes: {count} files, {len(problems)} problems"
          + (" (the table: docs/map.md)" if problems else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
