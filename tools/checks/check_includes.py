#!/usr/bin/env python3
"""Checks the includes of each unit against the table in docs/map.md.

usage: check_includes.py [--root FOLDER] [--table]

--table prints the table as docs/map.md has it, and checks nothing.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import sources  # noqa: E402

# The units, lowest first. A unit is a folder with everything below it, except the units within. So
# dataplane/transport is the interface (transport.h), and the transports are units of their own.
#
# Each unit may include itself and exactly what its row names: a unit, or a single file of one. A row is not transitive:
# it names everything that the unit uses. A row names only units above it, so folders have no cycles. ALL: every unit
# above the row.
#
# Tests (*_test.cc) may include every unit up to their own in this order, and helpers in tests/.
ALL = "all of the above"
BASE = ["base", "base/containers", "base/system"]
TRANSPORTS = ["dataplane/transport/shm", "dataplane/transport/verbs", "dataplane/transport/fabric"]
RECORDS = "control/coordinator/records"
ACCESS = "control/access"
BELOW_PROTOCOL = ["base", "base/containers", "dataplane/wire", "dataplane/partition"]
# Each uses those before it.
PROTOCOL = [f"dataplane/protocol/{folder}"
            for folder in ("operations", "scheduling", "job", "tree", "verdicts", "tiles", "matching")]
MAY_USE = {
    "base": [],
    "base/containers": ["base"],
    "base/system": ["base"],
    "base/text": ["base"],
    "base/log": ["base", "base/text"],
    "base/lp": ["base"],
    "base/timeouts": ["base"],
    "summation": ["base"],
    "dataplane/wire": ["base", "base/containers"],
    "dataplane/partition": ["base", "dataplane/wire"],
    **{unit: [*BELOW_PROTOCOL, *PROTOCOL[:i]] for i, unit in enumerate(PROTOCOL)},
    "dataplane/protocol": [*BELOW_PROTOCOL, *PROTOCOL],
    "dataplane/transport": [*BASE, "dataplane/wire"],
    "dataplane/transport/onesided": [*BASE, "dataplane/wire", "dataplane/transport"],
    "dataplane/transport/shm": [*BASE, "dataplane/wire", "dataplane/transport"],
    "dataplane/transport/verbs": [*BASE, "dataplane/wire", "dataplane/transport", "dataplane/transport/onesided"],
    "dataplane/transport/fabric": [*BASE, "dataplane/wire", "dataplane/transport", "dataplane/transport/onesided"],
    "dataplane/transport/roce/wire": ["base"],
    "dataplane/transport/roce/pair": ["base", "base/containers", "dataplane/transport/roce/wire"],
    "dataplane/transport/roce/port": ["base", "base/system", "dataplane/transport/roce/wire"],
    "dataplane/transport/roce/kernel": ["base", "base/system", "dataplane/transport/roce/wire", "dataplane/transport/roce/port"],
    "dataplane/transport/roce": [*BASE, "dataplane/wire", "dataplane/transport", "dataplane/transport/onesided",
                                 "dataplane/transport/verbs", "dataplane/transport/roce/wire", "dataplane/transport/roce/pair",
                                 "dataplane/transport/roce/port"],
    "dataplane/engine/tiles": ["base", "summation", "dataplane/partition",
                              "dataplane/protocol/scheduling", "dataplane/transport"],
    "dataplane/engine": [*BASE, "summation", "dataplane/wire", "dataplane/partition",
                         "dataplane/protocol/scheduling", "dataplane/protocol/job", "dataplane/protocol",
                         "dataplane/transport", "dataplane/engine/tiles"],
    "net": ["base", "base/system"],
    "net/crypto": ["base", "base/system"],
    "net/auth": ["base", "net/crypto"],
    "net/tls": ["base", "base/system", "net/crypto", "net/auth"],
    "net/rpc": ["base", "base/system", "base/timeouts", "dataplane/partition", "net", "net/auth", "net/tls"],
    "net/server": ["base", "base/system", "base/log", "net", "net/auth", "net/tls", "net/rpc"],
    "gpu_bridge/cuda_api": ["base", "base/system"],
    "gpu_bridge/nccl_api": ["base", "base/system", "gpu_bridge/cuda_api"],
    "gpu_bridge": ["base", "base/system", "gpu_bridge/cuda_api"],
    "client/include": [],
    "client/memory": ["base", "dataplane/wire", *TRANSPORTS],
    "client/operations": ["base", "dataplane/wire", "dataplane/partition", "client/memory"],
    "client/connections": [*BASE, "dataplane/wire", "dataplane/transport", *TRANSPORTS, "net", "net/rpc",
                           "client/memory"],
    "client/plans": ["base", "base/system", "base/timeouts", "net/rpc", "client/operations"],
    "client/versions": ["base", "base/system", "dataplane/wire", "dataplane/transport", "net/rpc", "client/memory", "client/operations",
                        "client/connections"],
    "client/session": ["base", "base/system", "dataplane/wire", "dataplane/partition", "dataplane/transport",
                       *TRANSPORTS, "net", "net/tls", "net/rpc", "client/include", "client/memory", "client/operations",
                       "client/connections", "client/plans", "client/versions"],
    "client/device": ["base", "base/system", "dataplane/partition", "gpu_bridge/cuda_api", "gpu_bridge", "client/memory",
                      "client/operations", "client/session"],
    "client/api": ["base", "base/system", "net", "client/include", "client/memory", "client/operations",
                   "client/session", "client/device"],
    "client/examples": ["client/include"],
    "control/threads": ["base", "base/system"],
    "control/machine": ["base", "base/system"],
    "control/plan/least_cost": ["base"],
    "control/plan/model": ["base", "control/plan/least_cost"],
    "control/plan/stars": ["base", "control/plan/model"],
    "control/plan/racks": [],
    "control/plan/pipeline": ["base"],
    "control/plan/groups": ["base"],
    "control/plan/json": ["base", "control/plan/model", "control/plan/pipeline", "control/plan/groups"],
    "control/plan/forestcoll": ["base", "control/plan/model"],
    "control/plan/packing/places": ["base", "control/plan/model"],
    "control/plan/packing/trees": ["base", "control/plan/least_cost", "control/plan/model", "control/plan/packing/places"],
    "control/plan/packing": ["base", "base/lp", "control/plan/model", "control/plan/stars", "control/plan/packing/places",
                             "control/plan/packing/trees"],
    "control/plan/rs_ag": ["base", "base/lp", "control/plan/model", "control/plan/forestcoll", "control/plan/packing/places", "control/plan/packing/trees"],
    "control/plan/advice": ["base", "control/plan/model", "control/plan/packing/places", "control/plan/packing"],
    "control/plan/drawing": ["control/plan/model"],
    "control/plan/size_classes": ["base", "control/plan/model", "control/plan/json", "control/plan/packing"],
    "gpu_bridge/machine": ["base", "base/lp", "control/plan/model", "control/plan/json"],
    "gpu_bridge/group": ["base", "base/system", "client/include", "gpu_bridge/cuda_api", "gpu_bridge/nccl_api", "gpu_bridge",
                         "gpu_bridge/machine"],
    ACCESS: ["base", "base/log", "base/text", "net", "net/crypto", "net/auth", "net/server"],
    RECORDS: ["base", "dataplane/wire", "dataplane/partition", "dataplane/protocol/job/vertex.h", "net/auth", "net/rpc",
              "control/plan/model", ACCESS],
    "control/coordinator/layout": ["base", "dataplane/partition", "dataplane/protocol/job/vertex.h", "control/plan/model", "control/plan/stars",
                                   "control/plan/json", RECORDS],
    "control/coordinator/state": ["base", "base/timeouts", "net", "control/plan/model", "control/plan/stars", "control/plan/json", ACCESS, RECORDS, "control/coordinator/layout"],
    "control/coordinator/rpc": ["base", "base/log", "base/text", "dataplane/wire", "net", "net/rpc", "net/server",
                                "control/threads", "control/plan/model", "control/plan/stars", "control/plan/json", ACCESS,
                                "control/coordinator/state"],
    "control/coordinator/store/etcd": ["base", "base/system", "net/crypto"],
    "control/coordinator/store": ["base", "base/log", "base/text", "base/timeouts", "dataplane/wire", "net/rpc", "control/plan/model", "control/plan/json",
                                  RECORDS, "control/coordinator/state", "control/coordinator/store/etcd"],
    "control/probe": ["base", "base/system", "base/log", "summation", "net", "net/rpc", "net/server", "control/threads",
                      "control/machine"],
    "control/node/jobs": ["base", "dataplane/partition", "dataplane/protocol/scheduling", "dataplane/protocol/job",
                          "dataplane/protocol", ACCESS, RECORDS],
    "control/node/regions": ["base", "base/system", "dataplane/transport/shm", "net/server", "control/threads"],
    "control/node/endpoints": ["base", "dataplane/transport/fabric", "net", "net/rpc", RECORDS],
    "control/node/shards": ["base", "base/log", "dataplane/transport", *TRANSPORTS, "dataplane/transport/roce",
                           "dataplane/engine", "control/threads"],
    "control/node/tree": ["base", "base/log", "base/system", "dataplane/protocol/job/vertex.h", "dataplane/transport/shm",
                          "dataplane/transport/verbs", "dataplane/transport/roce", "dataplane/engine", "net/tls", "net/rpc",
                          "client/memory", "client/connections", "client/versions", "control/threads", RECORDS,
                          "control/node/jobs", "control/node/shards"],
    "control/node/reports": ["base", "dataplane/wire", "dataplane/protocol/operations", "dataplane/protocol/verdicts",
                             "dataplane/engine", ACCESS, RECORDS, "control/node/jobs"],
    "control/node": ["base", "base/log", "base/system", "base/timeouts", "dataplane/transport/shm", "net/tls", "net/rpc",
                     "net/server", "control/threads", ACCESS, RECORDS, "control/coordinator/rpc", "control/probe",
                     "control/node/jobs", "control/node/regions", "control/node/endpoints", "control/node/shards",
                     "control/node/tree", "control/node/reports"],
    "control/config": ["base", "base/log", "base/system", "base/text", "base/timeouts", "summation", "dataplane/wire",
                       "dataplane/transport/verbs", "dataplane/transport/roce/port/address_frames.h",
                       "dataplane/transport/roce/port/address_resolver.h", "dataplane/engine", "net", "net/tls",
                       "net/server", "control/machine", RECORDS, "control/node/jobs"],
    "control/cluster": ["base", "base/log", "base/system", "base/timeouts", "net", "net/rpc", "control/node", "control/config"],
    "control/cli/common": ["base", "base/text", "net/rpc"],
    "control/cli/doctor": [*BASE, "base/text", "dataplane/transport/verbs", "dataplane/transport/fabric", "net",
                           "net/rpc", "control/machine", "control/config", "control/cli/common"],
    "control/cli/top": ["base", "base/system", "net", "net/rpc", "control/threads", "control/cli/common"],
    "control/cli/plan": ["base", "base/system", "base/text", "net/rpc", "control/plan/model", "control/plan/stars", "control/plan/packing", "control/plan/size_classes",
                         "control/plan/rs_ag", "control/plan/json", "gpu_bridge/machine", "control/config", "control/cli/common"],
    "control/cli/training": ["base", "control/plan/model", "control/plan/stars", "control/plan/pipeline", "control/plan/groups",
                             "control/plan/json", "control/cli/common", "control/cli/plan"],
    "control/cli/inspect": ["base", "base/system", "base/text", "control/plan/model", "control/plan/json", "control/plan/packing",
                            "control/plan/advice", "control/plan/drawing", "control/cli/common", "control/cli/plan"],
    "control/cli/probe": ["base", "base/text", "net", "net/rpc", "control/threads", "control/plan/racks",
                          "control/plan/json", "control/probe", "control/config", "control/cli/common", "control/cli/plan"],
    "control/sim/core": ["base", "dataplane/partition", "control/plan/model"],
    "control/sim/baselines": ["base", "control/plan/model", "control/plan/stars", "control/plan/forestcoll", "control/sim/core"],
    "control/sim/runs": ["base", "dataplane/partition", "dataplane/protocol/scheduling", "dataplane/protocol/job",
                      "control/plan/model", "control/sim/core", "control/sim/baselines"],
    "control/sim/command": ["base", "base/system", "base/text", "control/plan/model", "control/plan/json",
                         "control/cli/common", "control/cli/plan", "control/sim/core", "control/sim/baselines", "control/sim/runs"],
    "control/cli": ["base", "base/system", "net", "net/auth", "net/rpc", "control/threads", "control/cli/common",
                    "control/cli/doctor", "control/cli/top", "control/cli/plan", "control/cli/training", "control/cli/inspect", "control/cli/probe",
                    "control/sim/command"],
    "control/daemon": [ALL],
    "perf/gradients": ["base"],
    "perf/options": ["base", "base/text", "net", "client/include", "control/plan/model", "control/plan/json",
                     "control/cli/common", "control/cli/plan", "perf/gradients"],
    "perf/prediction": ["base", "base/text", "net", "net/rpc", "control/threads", "control/plan/model",
                        "control/plan/json", "control/cli/common", "control/cli/plan", "perf/options"],
    "perf/measure": ["base", "base/system", "base/text", "net/rpc", "client/include", "control/cli/plan",
                     "gpu_bridge/cuda_api", "gpu_bridge", "perf/gradients", "perf/options", "perf/prediction"],
    "perf/ceiling": ["base", "base/system", "net", "gpu_bridge/cuda_api", "gpu_bridge", "perf/options", "perf/measure"],
    "perf/run": ["base", "base/system", "base/text", "net", "net/auth", "net/tls", "net/rpc", "client/include", "control/cli/common", "perf/options",
                 "perf/prediction", "perf/measure", "perf/ceiling", "control/sim/command"],
    "perf/kernels": ["base", "summation"],
    "perf/compare": ["client/include"],
    "perf/limits": ["base", "base/system", "dataplane/transport/fabric", "gpu_bridge/cuda_api", "perf/measure",
                    "perf/ceiling"],
    "perf/limits/roce": ["base", "base/containers", "base/system", "summation", "dataplane/wire", "dataplane/transport",
                         "dataplane/transport/onesided", "dataplane/transport/verbs", "dataplane/transport/fabric",
                         "dataplane/transport/roce/wire", "dataplane/transport/roce/pair",
                         "dataplane/transport/roce/port", "dataplane/transport/roce", "dataplane/engine"],
    "integrations": ["base", "base/system", "dataplane/partition", "dataplane/transport/shm", "client/include",
                     "gpu_bridge/cuda_api", "gpu_bridge/nccl_api", "gpu_bridge", "gpu_bridge/group"],
    "tests": [ALL],
    "integrations/python/tests": [ALL],
}

# Places that may include headers of other projects: (begin of the header's name, the places, the reason).
# A place is a folder, or a single file. Headers that are not listed may be included anywhere.
ENGINE = "dataplane/engine"
ROCE = "dataplane/transport/roce"
PORT_LOOPS = "perf/limits/roce"
FOREIGN = [
    ("infiniband/", ["dataplane/transport/verbs", "dataplane/transport/fabric", ROCE, "tests/vm", "tests/support/transport"],
     "RDMA libraries stay behind the transport interface"),
    ("rdma/", ["dataplane/transport/verbs", "dataplane/transport/fabric", ROCE, "tests/support/transport"],
     "RDMA libraries stay behind the transport interface"),
    ("rte_ethdev", [ROCE, PORT_LOOPS], "only transport roce and a benchmark of ports drive ports"),
    ("rte_", [ENGINE, ROCE, PORT_LOOPS], "DPDK stays in the engine, transport roce and a benchmark of ports"),
    ("bpf/", ["dataplane/transport/roce/kernel"], "one unit loads and attaches programs of the kernel"),
    ("libmnl/", ["dataplane/transport/roce/kernel"], "one unit asks the kernel for routes"),
    ("openssl/", ["net/crypto", "net/tls"], "OpenSSL is opened at run time, behind these two"),
    ("asio", ["net/server", "control", "tests"], "asynchronous sockets belong to the control plane"),
    ("hwloc", ["control/machine", "gpu_bridge/machine"], "one unit finds which cores, memory and NICs belong together"),
    ("Clp", ["base/lp"], "one wrapper (lp.h) solves linear programs"),
    ("toml++/", ["control/config"], "one place reads the configuration"),
    ("nlohmann/", ["net", "client", "control", "perf", "tests"], "JSON is the control protocol and reports"),
    ("isa-l", ["base"], "one wrapper opens the library at run time"),
    ("immintrin.h", ["summation", "perf", "base"], "vector code lives in the kernels"),
    ("cuda", ["gpu_bridge", "integrations"], "GPU code lives on the workers' side"),
    ("nccl", ["gpu_bridge", "integrations"], "GPU code lives on the workers' side"),
]

# The folder of helpers for the tests of every unit.
TEST_HELPERS = "tests"


def unit_of(path: str) -> str | None:
    """Returns the unit of a path (a file, or an #include); None when the path is not of this project."""
    fitting = [u for u in MAY_USE if path == u or path.startswith(u + "/")]
    return max(fitting, key=len, default=None)


def is_ours(path: str) -> bool:
    return path.partition("/")[0] in {unit.partition("/")[0] for unit in MAY_USE}


def is_within(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def may_use(file: str, target: str) -> bool:
    """Whether the file may include the target."""
    order = list(MAY_USE)
    user, used = unit_of(file), unit_of(target)
    if user == used:
        return True
    if used is None:
        return False
    if Path(file).stem.endswith("_test"):
        return used == TEST_HELPERS or order.index(used) < order.index(user)
    row = MAY_USE[user]
    if ALL in row:
        return order.index(used) < order.index(user)
    return used in row or target in row


def describe(user: str) -> str:
    return ", ".join(MAY_USE[user]) or "nothing"


def table() -> list[str]:
    """Returns the table's rows in Markdown."""
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
        if is_ours(target):
            if not may_use(file, target):
                user = unit_of(file)
                problems.append(f"{file}:{line}: {user} may not include {target} "
                                f"(it may use: {describe(user)})")
            continue
        for prefix, places, reason in FOREIGN:
            if path.startswith(prefix):
                if not is_within(file, places):
                    problems.append(f"{file}:{line}: <{path}> may be included only in "
                                    f"{', '.join(places)}: {reason}")
                break
    return problems


def check(root: Path) -> tuple[int, list[str]]:
    """Returns (number of files, problems)."""
    graph = sources.IncludeGraph(root)
    files = [f for f in sources.list_files(root, sources.CPP) if is_ours(f)]
    lost = [f"{file}: its folder has no row in the table" for file in files if unit_of(file) is None]
    return len(files), lost + [p for file in files if unit_of(file) for p in check_file(root, graph, file)]


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
