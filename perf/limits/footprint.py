#!/usr/bin/env python3
"""What a node costs when nothing is to be done, and what memory of its own it needs for a large model.

idle    Share of a core that a node of the default settings uses: freshly started, and with a job of
        four ranks that is connected and does nothing (its processes are stopped).
memory  The node's own resident memory (anonymous, hugepages, memory files of its own; not the
        workers' pages, which it maps) while two workers reduce GPT-2 XL's 6.2 GB of gradients in
        buckets of 25 MB, in place. Needs 14 GiB for the workers.

usage: footprint.py [idle] [memory] [--build DIR] [--seconds S] [--json FILE]
"""

import argparse
import json
import os
import re
import signal
import time
from pathlib import Path

from running_node import RunningNode, default_build

MODEL = "gpt2-xl"
STEPS = 3
ENDLESS = ["--spawn", "4", "--min-bytes", "4K", "--max-bytes", "4K", "--iters", "100000000"]
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)$")


def share_of_core(node: RunningNode, seconds: float) -> float:
    time.sleep(1)  # what was to be done has been done
    cpu, clock = node.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (node.cpu_seconds() - cpu) / (time.monotonic() - clock)


def signal_all(pid: int, number: int) -> None:
    """To a process and its children, which have process groups of their own."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), number)
    os.kill(pid, number)


def measure_idle(build: Path, seconds: float) -> dict:
    result = {}
    with RunningNode(build, {"idle": (1, 4)}, []) as node:
        result["alone"] = share_of_core(node, seconds)
        workers = node.perf("idle", *ENDLESS)
        node.wait_until(lambda: node.bytes_by_job().get("idle", 0) > 0)
        signal_all(workers.pid, signal.SIGSTOP)
        result["connected"] = share_of_core(node, seconds)
        signal_all(workers.pid, signal.SIGCONT)
    for name, share in result.items():
        print(f"idle, {name}: {100 * share:.3f} % of a core over {seconds:g} s")
    return result


def own_bytes(pid: int) -> dict[str, int]:
    """Resident bytes of a node by whose they are, from /proc/PID/smaps."""
    sums = {"anonymous": 0, "hugepages": 0, "own files": 0, "workers' pages": 0}
    path = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if mapping := _MAPPING.match(line):
            path = mapping[1]
            continue
        key, _, value = line.partition(":")
        count = int(value.split()[0]) * 1024 if value.endswith(" kB") else 0
        if key in ("Private_Hugetlb", "Shared_Hugetlb"):
            sums["hugepages"] += count
        elif key == "Anonymous":
            sums["anonymous"] += count
        elif key == "Rss" and path.startswith("/memfd:"):
            workers = path.startswith("/memfd:tally-")  # clients call theirs so, the node none
            sums["workers' pages" if workers else "own files"] += count
    return sums


def measure_memory(build: Path) -> dict:
    most: dict[str, int] = {}
    with RunningNode(build, {"model": (1, 2)}, []) as node:
        perf = node.perf("model", "--spawn", "2", "--model", MODEL, "--mode", "buckets",
                         "--in-place", "--iters", str(STEPS), "--warmup", "1")
        while perf.poll() is None:
            for kind, count in own_bytes(node.pid).items():
                most[kind] = max(most.get(kind, 0), count)
            time.sleep(0.2)
        row = node.rows(perf)[0]
    own = sum(count for kind, count in most.items() if kind != "workers' pages")
    print(f"memory, {MODEL} ({row['bytes'] / 1e9:.1f} GB of gradients in buckets): "
          f"{own / 2**20:.1f} MiB of the node's own (" +
          ", ".join(f"{kind} {count / 2**20:.1f}" for kind, count in most.items()) + ")")
    return {"own_bytes": own, "most": most, "gradient_bytes": row["bytes"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["idle", "memory", []], help="default: both")
    parser.add_argument("--build", type=Path, default=default_build(), help="the build to measure")
    parser.add_argument("--seconds", type=float, default=10, help="of each idle figure")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = {}
    if not options.what or "idle" in options.what:
        result["idle"] = measure_idle(options.build, options.seconds)
    if not options.what or "memory" in options.what:
        result["memory"] = measure_memory(options.build)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
