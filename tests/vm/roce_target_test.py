#!/usr/bin/env python3
"""rdma-core's and perftest's programs over the kernel's soft-RoCE, against roce-target over DPDK's af_packet, in one
guest: each program both as the client of roce-target and as its server.

usage: roce_target_test.py ROCE_TARGET

$TALLY_TEST_TIER: fast, default, soak
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = ["pingpong", "send_bw", "write_bw", "read_bw"]
# Here roce-target knows the bytes that it receives.
CHECKED = {("pingpong", "server"), ("pingpong", "client"), ("send_bw", "server"), ("write_bw", "server"),
           ("read_bw", "client")}
IPV4, IPV6 = "10.9.0.100/24", "fd00:9::100/64"
ALL_SIZES = [1, 2, 255, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 65537, 262143, 1 << 20]
HEADERS = 80  # of a packet, at most
SIZES_OF_ALL = 23  # of perftest's -a: 2 bytes, 4 bytes and so on
LARGEST_OF_ALL = 1 << SIZES_OF_ALL
PREPARE = """set -u
target=$1
ip link add n0 mtu 9000 address 02:09:00:00:01:00 type veth peer name q0 mtu 9000
ip link set q0 master sw0 up
ip link set n0 up
ip address add fd00:9::1/64 dev v1 nodad
gid_of() { # a part of the address, as the table has it
  for _ in $(seq 50); do
    for index in $(seq 0 7); do
      if grep -q "$1" "/sys/class/infiniband/rxe1/ports/1/gids/$index" 2>/dev/null; then echo "$index"; return; fi
    done
    sleep 0.1
  done
}
ipv4=$(gid_of ffff:0a09:0001) ipv6=$(gid_of fd00:0009)
listens() { ss -Hltn 'sport = :18515' | grep -q .; }
# With perftest's timeout of 67 ms soft-RoCE sends again what is only slow here. When several messages are on their way,
# it may then give the packets of a message other numbers than before (kernel 6.1: a SEND Only without bytes gets the
# number that a SEND First had), and no receiver can put that right. So perftest gets 4 s (-u 20). ibv_rc_pingpong has
# one message on its way, and no such option.
program() { # name, gid, mtu, iterations, pairs, size, host or nothing
  name=$1 gid=$2 mtu=$3 iterations=$4 pairs=$5 size=$6
  shift 6
  case $name in
    pingpong) set -- ibv_rc_pingpong -g "$gid" -c -n "$iterations" -m "$mtu" -s "$size" "$@" ;;
    *) set -- "ib_$name" -x "$gid" -F -u 20 -n "$iterations" -m "$mtu" -q "$pairs" "$@"
       [ "$size" = all ] && set -- "$@" -a || set -- "$@" -s "$size" ;;
  esac
  timeout 100 "$@" -d rxe1 >/run/program 2>&1
  status=$?
  if [ $status != 0 ] || grep -q 'invalid data' /run/program; then cat /run/program; fi
  echo "program=$name size=$size status=$status at=$(cut -d' ' -f1 /proc/uptime)"
}
ours() { # gid, arguments of roce-target
  [ "$1" = "$ipv6" ] && address=fd00:9::100/64 || address=10.9.0.100/24
  shift
  "$target" --port net_af_packet0,iface=n0 --address "$address" "$@" >/run/ours 2>&1
  status=$?
  cat /run/ours
  echo "target status=$status"
}
# Whether the port takes packets of this MTU, by what it said before.
takes() { [ "$1" = 1024 ] || [ "$(sed -n 's/.* port_mtu=\\([0-9]*\\).*/\\1/p' /run/ours)" -ge $(($1 + 80)) ]; }
serve() { # name, gid, mtu, iterations, pairs, sizes
  takes "$3" || return 0
  ours "$2" --mtu "$3" --iterations "$4" --pairs "$5" --count $(($# - 5)) serve "$1" &
  server=$!
  name=$1 gid=$2 mtu=$3 iterations=$4 pairs=$5
  while kill -0 $server && ! listens; do sleep 0.1; done
  shift 5
  for size in "$@"; do program "$name" "$gid" "$mtu" "$iterations" "$pairs" "$size" 127.0.0.1; done
  wait $server
}
connect() { # the same
  takes "$3" || return 0
  name=$1 gid=$2 mtu=$3 iterations=$4 pairs=$5
  shift 5
  for size in "$@"; do program "$name" "$gid" "$mtu" "$iterations" "$pairs" "$size"; done &
  server=$!
  ours "$gid" --mtu "$mtu" --iterations "$iterations" --pairs "$pairs" --size "$(echo "$@" | tr ' ' ,)" \\
    connect 127.0.0.1 "$name"
  wait $server
}
"""
# soft-RoCE counts a packet once its ICRC has proved right, and does not count others.
END = 'echo "soft_roce took=$(cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts)"\n'


@dataclass
class Case:
    """roce-target plays this role with one program, a connection for each size."""

    tool: str
    role: str
    mtu: int
    sizes: list[int | str]  # of messages; "all" is perftest's -a
    iterations: int = 5
    pairs: int = 1
    ipv6: bool = False

    def command(self) -> str:
        verb = "serve" if self.role == "server" else "connect"
        gid = "$ipv6" if self.ipv6 else "$ipv4"
        return (f"{verb} {self.tool} {gid} {self.mtu} {self.iterations} {self.pairs} "
                f"{' '.join(map(str, self.sizes))}\n")

    def mistakes(self, lines: list[dict[str, str]]) -> list[str]:
        """Takes the lines of its connections from the list, and returns what is wrong with them."""
        found = []
        for size in self.sizes:
            name = f"{self.tool} as {self.role}, {size} bytes, mtu {self.mtu}"
            if not lines:
                return found + [f"{name}: no result"]
            line = lines.pop(0)
            messages = self.iterations * self.pairs * (SIZES_OF_ALL if size == "all" else 1)
            expected = {"tool": self.tool, "role": self.role, "mtu": str(self.mtu), "wrong_bytes": "0",
                        "wrong_icrc": "0", "unreadable": "0", "result": "ok",
                        "size": str(LARGEST_OF_ALL if size == "all" else size)}
            if (self.tool, self.role) == ("read_bw", "server"):
                expected["size"] = line.get("size", "")  # from the program's report
            else:
                expected["messages"] = str(messages)
            found += [f"{name}: {key} is {line.get(key)} and not {value}" for key, value in expected.items()
                      if line.get(key) != value]
            if (self.tool, self.role) in CHECKED and int(line.get("checked_bytes", "0")) == 0:
                found.append(f"{name}: nothing was checked")
            if (self.tool, self.role) == ("read_bw", "server") and size != "all" \
                    and int(line.get("read_bytes", "0")) < messages * size:
                found.append(f"{name}: read_bytes is {line.get('read_bytes')}")
        return found


def cases(is_soak: bool) -> list[Case]:
    both = [(tool, role) for tool in TOOLS for role in ("server", "client")]
    if not is_soak:
        return [Case("pingpong", role, 1024, [1, 65536], 2) for role in ("server", "client")] + \
               [Case(tool, role, 1024, [65536]) for tool, role in both[2:]] + \
               [Case("write_bw", "server", 1024, [1000], pairs=2, ipv6=True)] + \
               [Case(tool, role, 4096, [65537]) for tool, role in both[::3]]
    return [Case(tool, role, mtu, list(ALL_SIZES), iterations=20) for mtu in (1024, 4096) for tool, role in both] + \
           [Case(tool, "server", mtu, ["all"]) for mtu in (1024, 4096) for tool in TOOLS[1:]] + \
           [Case(tool, role, 1024, [1000, 65536], pairs=3) for tool, role in both if tool != "pingpong"] + \
           [Case(tool, role, 1024, [1000, 65537], ipv6=True) for tool, role in both]


def pairs_of(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", line))


def refused_packets(output: str) -> list[str]:
    """soft-RoCE does not take packets with a wrong ICRC. A few may also be lost, or come after the program has ended."""
    sent = [int(number) for number in re.findall(r"\bsent=(\d+)", output)]
    took = int(re.search(r"\btook=(\d+)", output).group(1))
    print(f"soft-RoCE took {took} of {sum(sent)} packets")
    few = 2 * len(sent) + sum(sent) // 100
    return [f"soft-RoCE took only {took} of {sum(sent)} packets"] if sum(sent) - took > few else []


def run(target: str, script: str, timeout: int) -> str:
    guest = subprocess.Popen([sys.executable, str(HERE / "guest.py"), "--machines", "1", "--timeout", str(timeout),
                              "--", "sh", "-c", script, "sh", target], stdout=subprocess.PIPE, text=True)
    output = ""
    for line in guest.stdout:
        print(line, end="", flush=True)
        output += line
    if guest.wait() != 0:
        sys.exit(guest.returncode)
    return output


def main() -> int:
    target = str(Path(sys.argv[1]).resolve())  # the guest begins elsewhere
    is_soak = os.environ.get("TALLY_TEST_TIER") == "soak"
    chosen = cases(is_soak)
    script = PREPARE + "".join(case.command() for case in chosen) + END
    output = run(target, script, 3000 if is_soak else 600)
    port_mtu = int(re.search(r"port_mtu=(\d+)", output).group(1))
    left_out = [case for case in chosen if case.mtu + HEADERS > port_mtu]
    chosen = [case for case in chosen if case not in left_out]
    lines = [pairs_of(line) for line in output.splitlines() if line.startswith("tool=")]
    found = [mistake for case in chosen for mistake in case.mistakes(lines)]
    found += [line for line in output.splitlines() if re.search(r"\bstatus=[1-9]", line)]
    found += refused_packets(output)
    for mistake in found:
        print(f"roce-target: {mistake}")
    for mtu in sorted({case.mtu for case in left_out}):
        print(f"left out: mtu {mtu}, because the port takes packets of {port_mtu} bytes")
    print(f"{sum(len(case.sizes) for case in chosen)} connections, {len(found)} mistakes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
