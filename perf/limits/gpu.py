#!/usr/bin/env python3
"""Operations on memory of a GPU: their speed beside pinned copies both ways at once, and what they cost the stream that
orders them.

With 1 rank and with 2 ranks on one GPU: all-reduce of 1 MiB to 256 MiB, all elements checked, with the ceiling of the
same run; then the round trip of a stream with an operation of 4 KiB less one without, and the gap that larger
operations make between work before and after them.

usage: gpu.py [--build DIR] [--iterations N] [--json FILE]

  --build DIR  a build folder, or a bundle (tools/bundle --help) with tally-perf, tallyd and stream_order
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from running_node import Tallyd, default_build  # noqa: E402

TIMEOUT = 600  # seconds, of a program


def program(build: Path, name: str) -> Path:
    packed = build / "bin" / Path(name).name
    return packed if packed.exists() else build / name


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def shares(build: Path, ranks: int, iterations: int) -> list[dict]:
    """The rows of tally-perf, each with its ceiling."""
    output = run(program(build, "perf/tally-perf"), "allreduce", "--spawn", str(ranks), "--tallyd",
                 program(build, "control/tallyd"), "--memory", "cuda", "--min-bytes", "1M", "--max-bytes", "256M",
                 "--factor", "4", "--iters", str(iterations), "--check", "--ceiling", "--quiet", "--json", "-")
    return json.loads(output)["rows"]


def stream_order(build: Path, ranks: int) -> dict:
    """What stream_order prints at rank 0."""
    with Tallyd(program(build, "control/tallyd"), "--log-level", "error", config="open_jobs = true\n") as node:
        command = [program(build, "perf/stream_order"), node.address]
        others = []
        try:
            for rank in range(1, ranks):
                others.append(subprocess.Popen([*command, str(rank), str(ranks)]))
            result = json.loads(run(*command, "0", str(ranks)))
            for other in others:
                if other.wait(timeout=TIMEOUT) != 0:
                    raise SystemExit(f"a rank of stream_order ended with {other.returncode}")
            return result
        finally:
            for other in others:
                other.kill()  # no effect on a process that has ended
                other.wait()


def show(ranks: int, rows: list[dict], order: dict) -> None:
    print(f"{ranks} rank{'s' if ranks > 1 else ''} on one GPU")
    for row in rows:
        share = row["algbw_GBps"] / row["ceiling_GBps"]
        print(f"  {row['bytes'] >> 10:8} KiB  {row['algbw_GBps']:8.2f} GB/s, {share:.2f} of pinned copies both ways, "
              f"{row['wrong']} wrong")
    print(f"  4 KiB: {order['small_us'] - order['empty_us']:.1f} us more than the round trip of an empty stream, "
          f"{order['empty_us']:.1f} us")
    for size in order["sizes"]:
        print(f"  {size['bytes'] >> 10:8} KiB  gap {size['gap_us']:.0f} us, {size['gap_us'] / size['own_us']:.2f} of the "
              f"operation's own time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = {}
    for ranks in (1, 2):
        rows, order = shares(options.build, ranks, options.iterations), stream_order(options.build, ranks)
        show(ranks, rows, order)
        figures[ranks] = {"rows": rows, "stream_order": order}
    if options.json:
        options.json.write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
