#!/usr/bin/env python3
"""Transport verbs beside perftest's ib_read_bw and ib_write_bw, over the same two devices, in turns.

reduce      One worker on the other machine, and the receiver beside the node: bytes that the node reads per second;
            the ceiling is ib_read_bw.
allreduce   Two workers on the other machine: bytes read and written per second; the ceiling is ib_read_bw and
            ib_write_bw together.

For one host with both devices, as in the virtual machine:
  python3 tests/vm/guest.py --timeout 900 -- python3 perf/limits/rdma.py --node-device rxe1 --device rxe2 --steer

With --steer each of the two (soft-RoCE) has its packets taken by a core of its own, as two machines would have it. Else
one core takes them all, the one that the node's reads begin at, and sums besides, while the other is half idle.

usage: rdma.py --node-device D --device D [--steer] [--type T] [--rounds N] [--size 4M] [--seconds S] [--bar X]
               [--build DIR] [--json FILE]
With --bar the exit status is 1 where one of the two shares is below.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bar  # noqa: E402
from running_node import TIMEOUT, Process, RunningNode, default_build, free_port  # noqa: E402

MESSAGE = "1048576"  # bytes of perftest's reads and writes
PATIENT = "20"         # its acknowledgements may take 4 s: emulated cores stand still for long
DEPTH = "16"           # of them outstanding, as many as Tally has
MARGIN = 1             # seconds that perftest does not count at the beginning and the end; its own 2 leave little


def steer(device: str, core: int) -> None:
    """Packets that come to the device's network interface are taken by that core, until the machine is started anew."""
    interface = Path(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/0").read_text().strip()
    for queue in Path(f"/sys/class/net/{interface}/queues").glob("rx-*"):
        (queue / "rps_cpus").write_text(f"{1 << core:x}")


def perftest(tool: str, node_device: str, device: str, seconds: int) -> tuple[Process, Process]:
    """The client is the node's side, as it is the node that reads and writes."""
    port = str(free_port())
    common = ["-p", port, "-s", MESSAGE, "-t", DEPTH, "-x", "1", "-D", str(seconds), "-f", str(MARGIN), "-u",
              PATIENT, "-F"]
    server = Process([tool, "-d", device, *common])
    until = time.monotonic() + TIMEOUT
    while subprocess.run(["ss", "-Hltn", f"sport = :{port}"], text=True, capture_output=True,
                         check=True).stdout == "":
        if time.monotonic() > until or server.poll() is not None:
            raise SystemExit(f"{tool} on {device} does not start")
        time.sleep(0.1)
    return server, Process([tool, "-d", node_device, *common, "127.0.0.1"])


def result_of(pair: tuple[Process, Process], seconds: int) -> float:
    """MB/s of 1e6 bytes, by the messages that perftest has counted: its own rates need a time-stamp counter that it
    could calibrate, and are 0 where other work kept it from that."""
    server, client = pair
    text = client.finish(None, 3 * TIMEOUT)
    server.wait(TIMEOUT)
    rows = re.findall(rf"^\s*{MESSAGE}\s+(\d+)\s+[\d.]+\s+[\d.]+", text, re.M)
    if not rows or int(rows[-1]) == 0:
        raise SystemExit(f"perftest moved nothing; it printed {text!r}")
    return int(rows[-1]) * int(MESSAGE) / 1e6 / (seconds - 2 * MARGIN)


def ceilings(arguments: argparse.Namespace) -> dict:
    def begin(tool: str) -> tuple:
        return perftest(tool, arguments.node_device, arguments.device, arguments.seconds)

    alone = result_of(begin("ib_read_bw"), arguments.seconds)
    both = [begin(tool) for tool in ("ib_read_bw", "ib_write_bw")]
    return {"reduce": alone, "allreduce": sum(result_of(one, arguments.seconds) for one in both)}


def tally(node: RunningNode, arguments: argparse.Namespace, tcp: str) -> dict:
    size = bytes_of(arguments.size)
    common = ["--min-bytes", arguments.size, "--max-bytes", arguments.size, "--duration", str(arguments.seconds),
              "--type", arguments.type, "--quiet"]
    verbs = {**os.environ, "TALLY_TRANSPORT": f"verbs:{arguments.device}"}
    program = arguments.build / "perf/tally-perf"
    reduce_ranks = [
        [program, "reduce", "--address", node.address, "--job", "beside", "--rank", "0", "--ranks", "2", "--root", "0",
         *common, "--json", "-"],
        [program, "reduce", "--address", tcp, "--job", "beside", "--rank", "1", "--ranks", "2", "--root", "0", *common]]
    receiver, sender = (Process(command, environment=environment)
                        for command, environment in zip(reduce_ranks, (None, verbs)))
    receiver.finish(timeout=arguments.seconds + TIMEOUT)
    time_us = json.loads(receiver.stdout)["rows"][0]["time_us_p50"]
    sender.finish()
    done = subprocess.run([program, "allreduce", "--spawn", "2", "--address", tcp, *common, "--json", "-"], env=verbs,
                          text=True, stdout=subprocess.PIPE, check=True, timeout=arguments.seconds + TIMEOUT)
    both_us = json.loads(done.stdout)["rows"][0]["time_us_p50"]
    return {"reduce": size / time_us, "allreduce": 4 * size / both_us}


def bytes_of(size: str) -> int:
    return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=default_build())
    parser.add_argument("--node-device", required=True)
    parser.add_argument("--device", required=True, help="the workers'")
    parser.add_argument("--steer", action="store_true", help="a core of its own for each device's packets")
    parser.add_argument("--type", default="f32", help="of the elements")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="4M")
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    bar.add_option(parser, "one of the two shares of perftest's figure is below X")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.seconds <= 2 * MARGIN:
        parser.error(f"--seconds {arguments.seconds}: more than {2 * MARGIN}: perftest counts what is in between")
    if arguments.steer:
        for core, device in enumerate([arguments.node_device, arguments.device]):
            steer(device, core)
    tcp = f"tcp:127.0.0.1:{free_port()}"
    rounds = []
    flags = ["--listen-tcp", tcp, "--shards", "1", "--verbs", "on", "--device", arguments.node_device]
    with RunningNode(arguments.build, {}, flags) as node:
        for _ in range(arguments.rounds):
            rounds.append({"ceiling": ceilings(arguments), "tally": tally(node, arguments, tcp)})
            print(json.dumps(rounds[-1]), flush=True)
    print(f"{'':>10} {'tally, MB/s':>12} {'perftest, MB/s':>15} {'share':>6}")
    shares = {}
    for what in ("reduce", "allreduce"):
        ours, theirs = (statistics.median(one[side][what] for one in rounds) for side in ("tally", "ceiling"))
        share = statistics.median(one["tally"][what] / one["ceiling"][what] for one in rounds)
        shares[f"{what}'s share of what perftest moves"] = share
        print(f"{what:>10} {ours:12.1f} {theirs:15.1f} {share:6.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds, indent=1) + "\n")
    return bar.status(arguments.bar, shares)


if __name__ == "__main__":
    sys.exit(main())
