#!/usr/bin/env python3
"""Machines of a simulated network on this host: network namespaces joined by a switch, or by one for each rack.

usage: network.py [--machines N] [--racks N] [--mtu BYTES] [--offload] -- COMMAND...

Runs COMMAND with TALLY_NET_NAMESPACES and TALLY_NET_ADDRESSES in its environment, separated by commas,
takes the network away and ends with its status; `ip netns exec NAMESPACE ...` runs something on a
machine. As a library:

  with Network(3) as network:
      node, worker = network.machine(1), network.machine(2)
      process = node.popen(["tallyd", "--listen", f"tcp:{node.address}:7777"])
      worker.limit("200mbit")
      worker.lose(0.01)

Machine I has the interface `eth0` with the address 10.77.0.I; the switch is a bridge in a namespace of
its own, and `portI` there is the other end of I's cable. With several rails it has `eth1` with 10.78.0.I,
`portI.1` and a switch of its own, and so on: rails are networks apart. Nothing of it is in the host's namespace, so
networks know nothing of each other. Losses are the switch's doing, whatever a machine sends with.

With several racks the machines are dealt out to them in order, as many to each. Rack R (from 0) has a bridge, whose
uplink is `rackR`; its other end is `coreR`, at the bridge that joins the racks.
"""

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import namespaces  # noqa: E402
from endings import ended_by_signals, undisturbed  # noqa: E402
from namespaces import NetworkError, call  # noqa: E402

SKIPPED = 77
MAX_MACHINES = 254
MAX_RAILS = 8
FIRST_SUBNET = 77
MILLION = 1_000_000  # parts into which a probability is cut
BURST_SECONDS = 0.01   # what a limit lets pass at once: a busy host wakes up late
QUEUE_MILLISECONDS = 20  # what waits before a limit; the rest is lost
MIN_BURST_FRAMES = 4
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kmg]?)bit")
_FACTOR = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


def available() -> str:
    """Why no network can be made here; empty when one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables"),
                             ("ethtool", "ethtool")):
        if shutil.which(program) is None:
            return f"needs {program} (package {package}; tools/setup --dev installs it)"
    probe = namespaces.new_prefix() + "probe"
    try:
        for what, words, text in _needs(probe):
            try:
                call(*words, text=text)
            except NetworkError as error:
                return f"this system has no {what}: {error}"
    finally:
        namespaces.remove(namespaces.names_with(probe))
    return ""


def _needs(probe: str) -> list[tuple[str, list[str], str]]:
    """(what, a command that fails without it, its input), to be run in this order."""
    inside = ["ip", "-n", probe, "link", "add"]
    rules = _losses(["numgen random mod 2 < 1 drop"])
    return [
        ("network namespaces", ["ip", "netns", "add", probe], ""),
        ("veth pairs", [*inside, "one", "type", "veth", "peer", "name", "other"], ""),
        ("bridges", [*inside, "bridge", "type", "bridge"], ""),
        ("token bucket filter", ["tc", "-n", probe, "qdisc", "add", "dev", "one", "root", "tbf", "rate",
                                 "1mbit", "burst", "10k", "latency", "1ms"], ""),
        ("nftables on bridges", ["ip", "netns", "exec", probe, "nft", "-f", "-"], rules),
    ]


class Switch:
    """The bridge, and the rules by which it loses."""

    def __init__(self, namespace: str):
        self.namespace = namespace
        self._lossy: dict[tuple[int | None, int | None], float] = {}
        self._cut: set[tuple[int, int]] = set()

    def lose(self, source: int | None, destination: int | None, probability: float) -> None:
        """IP packets from one machine to another of its rack, of which None is any."""
        if not 0 <= probability <= 1:
            raise ValueError(f"a probability is 0 to 1, not {probability}")
        self._lossy[source, destination] = probability
        self._apply()

    def cut(self, source: int, destination: int, is_cut: bool) -> None:
        """Everything, ARP included."""
        (self._cut.add if is_cut else self._cut.discard)((source, destination))
        self._apply()

    def limit_uplink(self, rack: int, rate: str, burst: int, queue: int) -> None:
        """Bits per second of a rack's uplink, each way; bytes that pass at once, and that wait."""
        for device in (_uplink(rack), _core(rack)):
            call("tc", "-n", self.namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                 "burst", str(burst), "limit", str(queue))

    def _apply(self) -> None:
        rules = [_way(*way) + " drop" for way in sorted(self._cut)]
        rules += [f"{_way(*way)} ether type {{ ip, ip6 }} numgen random mod {MILLION} <= {parts - 1} drop"
                  for way, probability in self._lossy.items() if (parts := round(probability * MILLION))]
        call("ip", "netns", "exec", self.namespace, "nft", "-f", "-", text=_losses(rules))


def _losses(rules: list[str]) -> str:
    """For nft: these instead of all before them. One transaction, so nothing slips through between."""
    return "\n".join(["table bridge losses", "delete table bridge losses", "table bridge losses {",
                      "chain forward {", "type filter hook forward priority 0", *rules, "}", "}", ""])


def _way(source: int | None, destination: int | None) -> str:
    return " ".join(f'{end} "{_port(index)}"' for end, index in
                    (("iifname", source), ("oifname", destination)) if index is not None)


def _port(index: int, rail: int = 0) -> str:
    return f"port{index}" + (f".{rail}" if rail else "")


def _bridge(rail: int, rack: int = 0) -> str:
    return "bridge" + (f".{rail}" if rail else "") + (f"-{rack}" if rack else "")


def _uplink(rack: int) -> str:
    return f"rack{rack}"


def _core(rack: int) -> str:
    return f"core{rack}"


def _interface(rail: int) -> str:
    return f"eth{rail}"


class Machine:
    """One of a network; what is changed here changes its cable, or how the switch treats it."""

    def __init__(self, index: int, rack: int, namespace: str, switch: Switch, mtu: int, rails: int):
        self.index = index
        self.rack = rack
        self.namespace = namespace
        self.addresses = [f"10.{FIRST_SUBNET + rail}.0.{index}" for rail in range(rails)]
        self.address = self.addresses[0]
        self.interface = _interface(0)
        self._switch = switch
        self._mtu = mtu
        self._limited: set[int] = set()
        self._started: list[subprocess.Popen] = []

    def popen(self, command: list, **arguments) -> subprocess.Popen:
        """A process on this machine: its pid is the command's own. It is killed with the network."""
        with undisturbed():
            self._started.append(subprocess.Popen(self._here(command), **arguments))
        return self._started[-1]

    def run(self, command: list, **arguments) -> subprocess.CompletedProcess:
        return subprocess.run(self._here(command), **arguments)

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A socket of this machine, in this process."""
        with namespaces.entered(self.namespace):
            return socket.socket(socket.AF_INET, kind)

    def limit(self, rate: str | None, burst: int | None = None, queue: int | None = None, rail: int = 0) -> None:
        """Bits per second of its cable, each way, such as "200mbit"; None: no limit.

        `burst`: bytes that pass at once; `queue`: bytes that wait before the limit, and no more. What it sends is
        limited in the queue of its own interface, so that its senders notice. A sender that goes around queues
        (PACKET_QDISC_BYPASS, XDP) goes around the limit.
        """
        for namespace, device in ((self.namespace, _interface(rail)),
                                  (self._switch.namespace, _port(self.index, rail))):
            tc = ["tc", "-n", namespace, "qdisc"]
            if rate is not None:
                waiting = ["limit", str(queue)] if queue else ["latency", f"{QUEUE_MILLISECONDS}ms"]
                call(*tc, "replace", "dev", device, "root", "tbf", "rate", rate,
                     "burst", str(burst or self._burst(rate)), *waiting)
            elif rail in self._limited:
                call(*tc, "delete", "dev", device, "root")
        (self._limited.discard if rate is None else self._limited.add)(rail)

    def lose(self, probability: float, source: "Machine | None" = None) -> None:
        """IP packets that it sends or gets; with a source only those that it gets from there."""
        if source is not None:
            self._switch.lose(self._neighbour(source), self.index, probability)
            return
        self._switch.lose(self.index, None, probability)
        self._switch.lose(None, self.index, probability)

    def drop_from(self, source: "Machine") -> None:
        """Everything from there, while what goes there passes: until it asks for the address again."""
        self._switch.cut(self._neighbour(source), self.index, True)

    def accept_from(self, source: "Machine") -> None:
        """Undoes drop_from()."""
        self._switch.cut(self._neighbour(source), self.index, False)

    def unplug(self, rail: int = 0) -> None:
        """The cable, on the switch's side: both ends see that there is none."""
        call("ip", "-n", self._switch.namespace, "link", "set", _port(self.index, rail), "down")

    def plug(self, rail: int = 0) -> None:
        """What was sent meanwhile is lost; a machine that asked for an address in vain asks once a second."""
        call("ip", "-n", self._switch.namespace, "link", "set", _port(self.index, rail), "up")

    def carried(self, rail: int = 0) -> int:
        """Bytes that it has sent by this cable."""
        path = f"/sys/class/net/{_interface(rail)}/statistics/tx_bytes"
        return int(self.run(["cat", path], capture_output=True, text=True, check=True).stdout)

    def kill_started(self) -> None:
        """What popen() started: one may still be on its way into the namespace."""
        for process in self._started:
            if process.poll() is None:
                process.kill()

    def _neighbour(self, other: "Machine") -> int:
        if other.rack != self.rack:
            raise ValueError(f"machines {other.index} and {self.index} are at switches of their own")
        return other.index

    def _here(self, command: list) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *map(str, command)]

    def _burst(self, rate: str) -> int:
        parts = _RATE.fullmatch(rate)
        if parts is None:
            raise ValueError(f'a rate is written like "200mbit", not "{rate}"')
        bytes_per_second = float(parts[1]) * _FACTOR[parts[2]] / 8
        return max(int(bytes_per_second * BURST_SECONDS), MIN_BURST_FRAMES * self._mtu)


class Network:
    """A context: inside, the machines are there; at its end they are gone, with all processes on them.

    Also after exceptions, SIGINT, SIGTERM and SIGHUP. After SIGKILL the next network on this host clears
    away. Machines send frames of at most the MTU, as on a cable; with offload they hand each other up to
    64 KiB at once, which is faster, and a lost packet is then as large. Losses are of the first rail.
    Racks have one rail.
    """

    def __init__(self, machines: int, mtu: int = 1500, offload: bool = False, rails: int = 1, racks: int = 1):
        if not 1 <= machines <= MAX_MACHINES:
            raise ValueError(f"a network has 1 to {MAX_MACHINES} machines, not {machines}")
        if not 1 <= rails <= MAX_RAILS:
            raise ValueError(f"a machine has 1 to {MAX_RAILS} rails, not {rails}")
        if racks < 1 or machines % racks != 0 or (racks > 1 and rails > 1):
            raise ValueError(f"{machines} machines with {rails} rails cannot be dealt to {racks} racks")
        self.prefix = namespaces.new_prefix()
        self.switch = Switch(self.prefix + "switch")
        self.machines = [Machine(index, (index - 1) * racks // machines, f"{self.prefix}{index}", self.switch, mtu, rails)
                         for index in range(1, machines + 1)]
        self._rails = range(rails)
        self._racks = range(racks)
        self._mtu = mtu
        self._offload = offload
        self._undo = contextlib.ExitStack()

    def machine(self, index: int) -> Machine:
        """They are counted from 1, as their addresses are."""
        if not 1 <= index <= len(self.machines):
            raise IndexError(f"there are machines 1 to {len(self.machines)}, not {index}")
        return self.machines[index - 1]

    def __enter__(self) -> "Network":
        with contextlib.ExitStack() as undo:
            undo.enter_context(ended_by_signals())
            undo.callback(self._remove)
            with undisturbed():
                namespaces.remove(namespaces.left_over())
                self._build()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception) -> bool | None:
        return self._undo.__exit__(*exception)

    def _build(self) -> None:
        for name in [self.switch.namespace, *(machine.namespace for machine in self.machines)]:
            call("ip", "netns", "add", name)
        names = [_bridge(rail, rack) for rail in self._rails for rack in self._racks]
        bridges = [line for name in names for line in (f"link add {name} type bridge", f"link set {name} up")]
        cables = [line for machine in self.machines for rail in self._rails for line in (
            f"link add {_port(machine.index, rail)} mtu {self._mtu} type veth "
            f"peer name {_interface(rail)} mtu {self._mtu} netns {machine.namespace}",
            f"link set {_port(machine.index, rail)} master {_bridge(rail, machine.rack)} up")]
        self._ip(self.switch.namespace, *bridges, *self._uplinks(), *cables)
        for machine in self.machines:
            ends = [line for rail in self._rails for line in (
                f"address add {machine.addresses[rail]}/24 dev {_interface(rail)}",
                f"link set {_interface(rail)} up")]
            self._ip(machine.namespace, "link set lo up", *ends)
            for rail in self._rails:
                if not self._offload:  # segmented as late as can be, which is the fastest
                    call("ip", "netns", "exec", machine.namespace, "ethtool", "-K", _interface(rail),
                         "tso", "off", "tx-udp-segmentation", "off")

    def _uplinks(self) -> list[str]:
        if len(self._racks) == 1:
            return []
        return ["link add core type bridge", "link set core up"] + [line for rack in self._racks for line in (
            f"link add {_uplink(rack)} mtu {self._mtu} type veth peer name {_core(rack)} mtu {self._mtu}",
            f"link set {_uplink(rack)} master {_bridge(0, rack)} up", f"link set {_core(rack)} master core up")]

    @staticmethod
    def _ip(namespace: str, *lines: str) -> None:
        call("ip", "-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")

    def _remove(self) -> None:
        with undisturbed():
            for machine in self.machines:
                machine.kill_started()
            namespaces.remove(namespaces.names_with(self.prefix))


def run_beside(network: Network, command: list[str]) -> int:
    """Runs a command in the host's namespace with the network in its environment; its status, as a shell's."""
    environment = {"TALLY_NET_NAMESPACES": ",".join(m.namespace for m in network.machines),
                   "TALLY_NET_ADDRESSES": ",".join(m.address for m in network.machines)}
    with contextlib.ExitStack() as undo:
        try:
            with undisturbed():
                process = subprocess.Popen(command, env={**os.environ, **environment})
                undo.callback(end, process)
        except OSError as error:
            print(f"network: {command[0]}: {error.strerror}", file=sys.stderr)
            return 127
        status = process.wait()
    return status if status >= 0 else 128 - status


def end(process: subprocess.Popen) -> None:
    """It is asked first."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(namespaces.KILL_TIMEOUT)
    process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=2, help="how many (default: 2)")
    parser.add_argument("--racks", type=int, default=1, help="switches that they are dealt to (default: 1)")
    parser.add_argument("--mtu", type=int, default=1500, help="of all interfaces (default: 1500)")
    parser.add_argument("--offload", action="store_true", help="up to 64 KiB at once")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    arguments = parser.parse_args()
    if reason := available():
        print(reason)
        return SKIPPED
    with Network(arguments.machines, arguments.mtu, arguments.offload, racks=arguments.racks) as network:
        return run_beside(network, arguments.command)


if __name__ == "__main__":
    sys.exit(main())
